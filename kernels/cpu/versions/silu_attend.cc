// Vector versions of attention by SiLU. Like attend.cc, without a running maximum: query rows are
// grouped into blocks of tiles; for each panel of keys all tiles of the block compute their
// weights, then all add the panel's values. The accumulators of a tile's scores start with the
// pairs' bias: a run of the weights by distance, as positions are consecutive in a panel, and a
// weight by bucket that changes a few times in a row. So no pair needs a lookup. A weight is z / (1
// + 2^(-z log2 e)), the quotient by a reciprocal that one Newton step makes exact to 2^-22. As in
// attend.cc, keys and values in bf16 are packed as pairs for AVX512_BF16 if the task allows it.
// Operations: 4 * head_dim per visible pair and 14 to 17 for its weight, 2 for its bias. Rows that
// come out infinite or NaN are computed again, each alone.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/silu_attend.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/cpu/versions/attend_panels_inl.h"
#include "kernels/cpu/versions/attend_tile_inl.h"
#include "kernels/operations/silu_attend.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

// Rows of a block: a panel's keys and values are read, or packed, once for all of them. Their queries and
// outputs stay in the second-level cache.
inline constexpr std::size_t kSiluBlockRows = kTileRows * (kManyRegisters ? 12 : 24);
inline constexpr std::size_t kSiluTiles = kSiluBlockRows / kTileRows;
inline constexpr std::size_t kSiluInPlaceRows = 4;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu_of(D d, V z) {
  const V most = hn::Set(d, 120.0f);  // 2^120 and its reciprocal are both normal
  const V divisor =
      hn::Add(hn::Set(d, 1.0f), exp2_fast(d, hn::Min(hn::Mul(z, hn::Set(d, -1.44269504f)), most)));
  const V near = hn::ApproximateReciprocal(divisor);
  V reciprocal = hn::MulAdd(near, hn::NegMulAdd(divisor, near, hn::Set(d, 1.0f)), near);
  if constexpr (HWY_TARGET != HWY_AVX3)  // 12 bits become about 23, 14 all of them; NEON begins with 8
    reciprocal = hn::MulAdd(reciprocal, hn::NegMulAdd(divisor, reciprocal, hn::Set(d, 1.0f)), reciprocal);
  return hn::Mul(z, reciprocal);
}

// Turns the scores of a panel into weights[i][key], zero where row i does not see the key (kMasked only).
template <std::size_t R, bool kMasked, Rounding kRounding = Rounding::none>
HWY_INLINE void silu_weights(Vec (&s)[R][2], const Visible* visible, float* HWY_RESTRICT weights) {
  const Floats d;
  const Vec low = hn::Iota(d, 0.0f), high = hn::Iota(d, float(kLanes));
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    Vec first = silu_of(d, s[i][0]), second = silu_of(d, s[i][1]);
    if constexpr (kMasked) {
      const Vec begin = hn::Set(d, visible[i].begin), end = hn::Set(d, visible[i].end);
      first = hn::IfThenElseZero(hn::And(hn::Ge(low, begin), hn::Lt(low, end)), first);
      second = hn::IfThenElseZero(hn::And(hn::Ge(high, begin), hn::Lt(high, end)), second);
    }
#if TROUPE_PAIR_TARGET
    if constexpr (kRounding != Rounding::none) {
      store_rounded<kRounding>(round_to_bf16(first.raw, second.raw), weights + i * kPanel);
      continue;
    }
#endif
    hn::Store(first, d, weights + i * kPanel);
    hn::Store(second, d, weights + i * kPanel + kLanes);
  }
}

using Lines = std::span<const char* const>;  // cache lines to prefetch

// Scores of queries [columns][R] with a packed panel of keys [columns][kPanel]; bias [R][kPanel].
// kPairs: a column is a word of two numbers in bf16. Prefetches the first of the lines, one with each
// column, as many misses at once would delay others.
template <std::size_t R, bool kMasked, bool kPairs = false>
HWY_NOINLINE void silu_packed(const float* HWY_RESTRICT queries, const Panel& panel, std::size_t columns,
                              const float* HWY_RESTRICT bias, const Visible* visible,
                              float* HWY_RESTRICT weights, Lines ahead) {
  const Floats d;
  const float* HWY_RESTRICT keys = panel.keys;
  Vec s[R][2];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    s[i][0] = hn::Load(d, bias + i * kPanel);
    s[i][1] = hn::Load(d, bias + i * kPanel + kLanes);
  }
  for (std::size_t c = 0; c < columns; ++c, queries += R, keys += kPanel) {
    if (c < ahead.size()) __builtin_prefetch(ahead[c], 0, 2);
    const Vec low = hn::Load(d, keys), high = hn::Load(d, keys + kLanes);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec q = hn::Set(d, queries[i]);
#if TROUPE_PAIR_TARGET
      if constexpr (kPairs) {
        add_pair_products(q, low, s[i][0]);
        add_pair_products(q, high, s[i][1]);
        continue;
      }
#endif
      s[i][0] = hn::MulAdd(q, low, s[i][0]);
      s[i][1] = hn::MulAdd(q, high, s[i][1]);
    }
  }
  silu_weights<R, kMasked, kPairs ? Rounding::pairs : Rounding::none>(s, visible, weights);
}

// Scores of queries [R][columns] with keys in place; columns is a multiple of kLanes.
template <std::size_t R, bool kMasked, Rounding kRounding = Rounding::none>
HWY_NOINLINE void silu_in_place(const float* HWY_RESTRICT queries, const Panel& panel, std::size_t columns,
                                const float* HWY_RESTRICT bias, const Visible* visible,
                                float* HWY_RESTRICT weights, Lines) {
  const Floats d;
  HWY_ALIGN float dots[R * kPanel];
  for (std::size_t key = 0; key < kPanel; ++key) {
    Vec sum[R];
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) sum[i] = hn::Zero(d);
    for (std::size_t c = 0; c < columns; c += kLanes) {
      const Vec k = hn::LoadU(d, panel.key_rows[key] + c);
      TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) sum[i] =
          hn::MulAdd(hn::Load(d, queries + i * columns + c), k, sum[i]);
    }
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) dots[i * kPanel + key] =
        hn::GetLane(hn::SumOfLanes(d, sum[i]));
  }
  Vec s[R][2];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    s[i][0] = hn::Add(infinity_to_nan(hn::Load(d, dots + i * kPanel)), hn::Load(d, bias + i * kPanel));
    s[i][1] = hn::Add(infinity_to_nan(hn::Load(d, dots + i * kPanel + kLanes)),
                      hn::Load(d, bias + i * kPanel + kLanes));
  }
  silu_weights<R, kMasked, kRounding>(s, visible, weights);
}

// The tile functions for one number of rows.
struct SiluOps {
  std::size_t rows;
  decltype(&silu_packed<1, false>) weigh, weigh_masked;
  // For two vectors of columns, or one; values in place, or packed.
  decltype(&accumulate<1, 1, true>) add_two, add_one, add_two_packed, add_one_packed;
};
template <std::size_t R>
inline constexpr SiluOps kSiluPacked = {R,
                                        &silu_packed<R, false>,
                                        &silu_packed<R, true>,
                                        &accumulate<R, 2, false>,
                                        &accumulate<R, 1, false>,
                                        &accumulate<R, 2, true>,
                                        &accumulate<R, 1, true>};
template <std::size_t R>
inline constexpr SiluOps kSiluInPlace = {R,
                                         &silu_in_place<R, false>,
                                         &silu_in_place<R, true>,
                                         &accumulate<R, 2, false>,
                                         &accumulate<R, 1, false>,
                                         nullptr,
                                         nullptr};

#if TROUPE_PAIR_TARGET
template <std::size_t R>
inline constexpr SiluOps kSiluPairs = {
    R,       &silu_packed<R, false, true>, &silu_packed<R, true, true>, nullptr,
    nullptr, &accumulate_pairs<R, 2>,      &accumulate_pairs<R, 1>};
template <std::size_t R>
inline constexpr SiluOps kSiluRoundedInPlace = {R,
                                                &silu_in_place<R, false, Rounding::floats>,
                                                &silu_in_place<R, true, Rounding::floats>,
                                                &accumulate<R, 2, false>,
                                                &accumulate<R, 1, false>,
                                                nullptr,
                                                nullptr};
#endif

// The smallest tile that holds `rows` rows.
inline const SiluOps& silu_ops(std::size_t rows, Keys keys) {
  const bool in_place = keys == Keys::in_place;
#if TROUPE_PAIR_TARGET
  if (keys == Keys::pairs)
    return rows <= 1   ? kSiluPairs<1>
           : rows <= 2 ? kSiluPairs<2>
           : rows <= 4 ? kSiluPairs<4>
           : rows <= 8 ? kSiluPairs<8>
                       : kSiluPairs<kTileRows>;
  if (keys == Keys::in_place_rounded)
    return rows <= 1   ? kSiluRoundedInPlace<1>
           : rows <= 2 ? kSiluRoundedInPlace<2>
                       : kSiluRoundedInPlace<kSiluInPlaceRows>;
#endif
  if (rows <= 1) return in_place ? kSiluInPlace<1> : kSiluPacked<1>;
  if (rows <= 2) return in_place ? kSiluInPlace<2> : kSiluPacked<2>;
  if (rows <= 4) return in_place ? kSiluInPlace<kSiluInPlaceRows> : kSiluPacked<4>;
  if constexpr (kTileRows > 8) {
    if (rows <= 8) return kSiluPacked<8>;
  }
  return kSiluPacked<kTileRows>;
}

struct SiluTile {
  const SiluOps* ops;
  std::size_t first, rows;      // query rows [first, first + rows); the tile may have more
  float* queries;               // [head_dim][R], [head_dim/2][R] pairs, or [R][head_dim] for keys in place
  float *weights, *bias, *out;  // [R][kPanel], twice; per two vectors of columns [R][2 vectors]
  std::uint32_t begin[kTileRows], end[kTileRows];  // keys that each row sees in this phase
  std::uint32_t some_begin, some_end;              // a range that holds all keys that any row sees
  std::uint32_t all_begin, all_end;                // keys that every row sees
  std::size_t from, to;                            // keys of the current panel that some row sees
  std::uint32_t step[kTileRows];                   // current step of each row
};

// The tiles of up to kSiluBlockRows query rows while they pass over all panels.
class SiluBlock {
 public:
  SiluBlock(const SiluAttendTask& task, Keys keys, float* storage)
      : task_(task),
        keys_are_(keys),
        key_steps_(task.head_dim / (keys == Keys::pairs ? 2 : 1)),
        width_(round_up(task.numbers_of_value(), kLanes)) {
    for (SiluTile& tile : tiles_) {
      tile.queries = storage;
      tile.weights = tile.queries + round_up(kTileRows * task.head_dim, kPanel);
      tile.bias = tile.weights + kTileRows * kPanel;
      tile.out = tile.bias + kTileRows * kPanel;
      storage = tile.out + kTileRows * width_;
    }
  }
  static std::size_t storage_floats(std::size_t head_dim, std::size_t value_dim) {
    return kSiluTiles *
           (round_up(kTileRows * head_dim, kPanel) + kTileRows * (2 * kPanel + round_up(value_dim, kLanes)));
  }

  // Starts with query rows [first, end).
  void start(std::size_t first, std::size_t end) {
    used_ = 0;
    for (; first < end; first += kTileRows)
      start_tile(tiles_[used_++], first, std::min(kTileRows, end - first));
  }

  void attend_context(Panels& context) {
    for (SiluTile& tile : tiles()) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        const std::size_t row = row_of(tile, i);
        tile.begin[i] = task_.context_begin.empty() ? 0 : task_.context_begin[row];
        tile.end[i] = task_.context_end.empty() ? std::uint32_t(context.tokens()) : task_.context_end[row];
      }
      bound(tile);
    }
    attend_panels(context, 0);
  }

  void attend_tail(Panels& tail, std::size_t context_tokens) {
    for (SiluTile& tile : tiles()) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        const std::size_t row = row_of(tile, i);
        tile.begin[i] = task_.tail_begin[row];
        tile.end[i] = std::max(task_.tail_begin[row], task_.tail_end[row]);
      }
      bound(tile);
    }
    attend_panels(tail, context_tokens);
  }

  // Writes the outputs. Returns false if one of them is infinite or NaN.
  bool finish() const {
    bool finite = true;
    for (const SiluTile& tile : std::span(tiles_, used_))
      for (std::size_t i = 0; i < tile.rows; ++i) finite = finish_row(tile, i) && finite;
    return finite;
  }

 private:
  // Positions of a panel's keys: consecutive, all the same, or neither.
  enum class Positions { run_on, same, any };

  std::span<SiluTile> tiles() { return {tiles_, used_}; }
  static std::size_t row_of(const SiluTile& tile, std::size_t i) {
    return tile.first + std::min(i, tile.rows - 1);
  }

  void start_tile(SiluTile& tile, std::size_t first, std::size_t rows) {
    tile.ops = &silu_ops(rows, keys_are_);
    tile.first = first;
    tile.rows = rows;
    const float* queries[kTileRows];
    for (std::size_t i = 0; i < kTileRows; ++i)
      queries[i] = i < rows ? task_.queries + (first + i) * task_.query_stride : kZeros;
    const std::size_t count = tile.ops->rows * task_.head_dim;
    if (stay_in_place(keys_are_)) {
      for (std::size_t i = 0; i < tile.ops->rows; ++i)
        std::memcpy(tile.queries + i * task_.head_dim, queries[i], task_.head_dim * sizeof(float));
    } else {
      transpose(queries, tile.ops->rows, task_.head_dim, tile.queries, tile.ops->rows);
    }
    const Floats d;
    const Vec factor = hn::Set(d, task_.scale);
    for (float* q = tile.queries; q < tile.queries + count; q += kLanes)
      hn::Store(hn::Mul(hn::Load(d, q), factor), d, q);
#if TROUPE_PAIR_TARGET
    if (keys_are_ == Keys::pairs) round_queries(tile.queries, task_.head_dim, tile.ops->rows);
    if (keys_are_ == Keys::in_place_rounded) round_floats(tile.queries, count);
#endif
    std::fill(tile.bias, tile.bias + kTileRows * kPanel, 0.0f);
    std::fill(tile.out, tile.out + kTileRows * width_, 0.0f);
    if (task_.bias.by_distance == nullptr) return;
    for (std::size_t i = 0; i < rows; ++i) tile.step[i] = task_.bias.step_begin[first + i];
  }

  static void bound(SiluTile& tile) {
    const std::size_t rows = tile.ops->rows;
    tile.some_begin = *std::min_element(tile.begin, tile.begin + rows);
    tile.all_begin = *std::max_element(tile.begin, tile.begin + rows);
    tile.all_end = *std::min_element(tile.end, tile.end + rows);
    tile.some_end = *std::max_element(tile.end, tile.end + rows);
  }

  // Keys of `panels` are numbered from `first_of_all` on among all keys.
  void attend_panels(Panels& panels, std::size_t first_of_all) {
    std::size_t begin = panels.tokens(), end = 0;
    for (const SiluTile& tile : tiles()) {
      if (tile.some_begin >= tile.some_end) continue;
      begin = std::min<std::size_t>(begin, tile.some_begin);
      end = std::max<std::size_t>(end, tile.some_end);
    }
    for (std::size_t panel = begin / kPanel; panel * kPanel < end; ++panel) {
      const std::size_t first_key = panel * kPanel;
      const Panel& here = panels.panel(panel);
      panels.note_next(panel + 1);
      note_positions(first_of_all + first_key, std::min(kPanel, panels.tokens() - first_key));
      for (std::size_t t = 0; t < used_; ++t) weigh_keys(tiles_[t], here, first_key, panels.ahead(t, used_));
      for (SiluTile& tile : tiles()) add_values(tile, here);
    }
  }

  void note_positions(std::size_t key, std::size_t count) {
    key_ = key;
    keys_ = count;
    if (task_.bias.by_distance == nullptr) return;
    const std::int32_t* const at = task_.bias.key_positions.data() + key;
    bool run_on = count == kPanel, same = true;
    for (std::size_t k = 1; k < count; ++k) {
      run_on = run_on && at[k] == at[0] + std::int32_t(k);
      same = same && at[k] == at[0];
    }
    positions_ = run_on ? Positions::run_on : same ? Positions::same : Positions::any;
  }

  // Fills in the biases of the panel's keys for row i of the tile.
  void fill_bias(SiluTile& tile, std::size_t i) const {
    const PairBias& bias = task_.bias;
    const Floats d;
    const std::size_t row = tile.first + i;
    float* const out = tile.bias + i * kPanel;
    std::uint32_t& step = tile.step[i];
    const std::uint32_t end = bias.step_end[row];
    while (step + 1 < end && bias.steps[step + 1].key <= key_) ++step;
    Vec low = hn::Set(d, bias.by_bucket[bias.steps[step].bucket]), high = low;
    const Vec first = hn::Iota(d, 0.0f), second = hn::Iota(d, float(kLanes));
    for (std::uint32_t s = step + 1; s < end && bias.steps[s].key < key_ + kPanel; ++s) {
      const Vec from = hn::Set(d, float(bias.steps[s].key - key_)),
                next = hn::Set(d, bias.by_bucket[bias.steps[s].bucket]);
      low = hn::IfThenElse(hn::Ge(first, from), next, low);
      high = hn::IfThenElse(hn::Ge(second, from), next, high);
    }
    const float* const by_distance = bias.by_distance - bias.row_positions[row];
    const std::int32_t* const at = bias.key_positions.data() + key_;
    if (positions_ == Positions::run_on) {
      const float* const from = by_distance + at[0];
      hn::Store(hn::Add(hn::LoadU(d, from), low), d, out);
      hn::Store(hn::Add(hn::LoadU(d, from + kLanes), high), d, out + kLanes);
    } else if (positions_ == Positions::same) {
      const Vec distance = hn::Set(d, by_distance[at[0]]);
      hn::Store(hn::Add(distance, low), d, out);
      hn::Store(hn::Add(distance, high), d, out + kLanes);
    } else {
      hn::Store(low, d, out);
      hn::Store(high, d, out + kLanes);
      for (std::size_t k = 0; k < keys_; ++k) out[k] += by_distance[at[k]];
    }
  }

  void weigh_keys(SiluTile& tile, const Panel& panel, std::size_t first_key, Lines ahead) const {
    const std::size_t end_key = first_key + kPanel;
    tile.from = std::max<std::size_t>(tile.some_begin, first_key) - first_key;
    tile.to = std::max<std::size_t>(std::min<std::size_t>(tile.some_end, end_key), first_key) - first_key;
    if (tile.from >= tile.to) return;
    if (task_.bias.by_distance != nullptr)
      for (std::size_t i = 0; i < tile.rows; ++i) fill_bias(tile, i);
    if (tile.all_begin <= first_key && end_key <= tile.all_end) {
      tile.ops->weigh(tile.queries, panel, key_steps_, tile.bias, nullptr, tile.weights, ahead);
      return;
    }
    Visible visible[kTileRows];
    for (std::size_t i = 0; i < kTileRows; ++i)
      visible[i] = {float(tile.begin[i]) - float(first_key), float(tile.end[i]) - float(first_key)};
    tile.ops->weigh_masked(tile.queries, panel, key_steps_, tile.bias, visible, tile.weights, ahead);
  }

  void add_values(SiluTile& tile, const Panel& panel) const {
    if (tile.from >= tile.to) return;
    const SiluOps& ops = *tile.ops;
    const bool packed = panel.values != nullptr;
    for (std::size_t column = 0; column < width_; column += kPanel) {
      const auto add = column + kPanel <= width_ ? (packed ? ops.add_two_packed : ops.add_two)
                                                 : (packed ? ops.add_one_packed : ops.add_one);
      add(tile.weights, panel, width_, column, tile.from, tile.to, nullptr,
          tile.out + column * tile.ops->rows);
    }
  }

  bool finish_row(const SiluTile& tile, std::size_t i) const {
    const Floats d;
    Vec sum_of_zeros = hn::Zero(d);
    float* const out = task_.out + (tile.first + i) * task_.out_stride;
    const Vec factor = hn::Set(d, task_.factor);
    for (std::size_t column = 0; column < width_; column += kLanes) {
      const std::size_t pair =
          column / kPanel * kPanel;  // columns are stored in pairs of vectors, a last one alone
      const std::size_t pair_width = std::min(kPanel, width_ - pair);
      HWY_ALIGN float lanes[kLanes];
      const float* const from = tile.out + pair * tile.ops->rows + i * pair_width + (column - pair);
      const Vec sum = hn::Mul(hn::Load(d, from), factor);
      sum_of_zeros = hn::MulAdd(sum, hn::Zero(d), sum_of_zeros);
      hn::Store(sum, d, lanes);
      std::memcpy(out + column, lanes, std::min(kLanes, task_.numbers_of_value() - column) * sizeof(float));
    }
    return hn::AllTrue(d, hn::Eq(sum_of_zeros, hn::Zero(d)));
  }

  const SiluAttendTask& task_;
  Keys keys_are_;
  std::size_t key_steps_;  // of a score's sum
  std::size_t width_, used_ = 0;
  std::size_t key_ = 0, keys_ = 0;  // the panel's first key among all keys, and how many it has
  Positions positions_ = Positions::any;
  SiluTile tiles_[kSiluTiles];
};

inline Keys silu_keys_of(const SiluAttendTask& task, bool may_pair) {
  const bool whole = task.numbers_of_value() % kLanes == 0 && task.head_dim % kLanes == 0;
  const bool pairs =
      may_pair && task.may_round && task.head_dim % 2 == 0 && all_bf16(task.context) && all_bf16(task.tail);
  if (task.rows <= kSiluInPlaceRows && whole) return pairs ? Keys::in_place_rounded : Keys::in_place;
  return pairs ? Keys::pairs : Keys::packed;
}

// Returns false if an output is infinite or NaN. `may_pair`: the CPU has AVX512_BF16.
inline bool silu_attend_all(const SiluAttendTask& task, AttendScratch& scratch, bool may_pair) {
  const std::size_t rows = task.rows, value_dim = task.numbers_of_value(),
                    width = round_up(value_dim, kLanes);
  const Keys keys = silu_keys_of(task, may_pair);
  const bool pairs = keys == Keys::pairs;
  const bool one_block = rows <= kSiluBlockRows;
  Panels context(task.context, task.head_dim, width, value_dim, pairs),
      tail(task.tail, task.head_dim, width, value_dim, pairs);
  const std::size_t slots = one_block ? 1 : context.panels() + tail.panels();
  const std::size_t block_floats = SiluBlock::storage_floats(task.head_dim, value_dim),
                    key_floats = kPanel * task.head_dim;
  float* const storage = reserve(scratch, block_floats + key_floats + slots * context.slot_floats());
  float* const wide_keys = storage + block_floats;
  float* const slot = wide_keys + key_floats;
  if (stay_in_place(keys)) {
    context.leave_in_place(wide_keys, slot, false);
    tail.leave_in_place(wide_keys, slot, false);
  } else if (one_block) {
    context.pack_on_demand(wide_keys, slot, true);
    tail.pack_on_demand(wide_keys, slot, true);
  } else {
    context.pack_all(wide_keys, slot);
    tail.pack_all(wide_keys, slot + context.panels() * context.slot_floats());
  }
  SiluBlock block(task, keys, storage);
  bool finite = true;
  for (std::size_t first = 0; first < rows; first += kSiluBlockRows) {
    block.start(first, std::min(rows, first + kSiluBlockRows));
    block.attend_context(context);
    block.attend_tail(tail, context.tokens());
    finite = block.finish() && finite;
  }
  return finite;
}

inline SiluAttendTask silu_one_row(SiluAttendTask task, std::size_t row) {
  task.queries += row * task.query_stride;
  task.out += row * task.out_stride;
  if (!task.context_begin.empty()) task.context_begin = task.context_begin.subspan(row, 1);
  if (!task.context_end.empty()) task.context_end = task.context_end.subspan(row, 1);
  task.tail_begin = task.tail_begin.subspan(row, 1);
  task.tail_end = task.tail_end.subspan(row, 1);
  task.rows = 1;
  if (task.bias.by_distance == nullptr) return task;
  task.bias.row_positions = task.bias.row_positions.subspan(row, 1);
  task.bias.step_begin = task.bias.step_begin.subspan(row, 1);
  task.bias.step_end = task.bias.step_end.subspan(row, 1);
  return task;
}

// A row alone in its tile, without pairs, meets only what it sees, as in attend.cc.
void silu_attend_rows(const SiluAttendTask& task, AttendScratch& scratch, bool may_pair) {
  if (task.rows == 0 || silu_attend_all(task, scratch, may_pair)) return;
  if (task.rows == 1 && silu_keys_of(task, may_pair) != Keys::pairs) return;
  for (std::size_t row = 0; row < task.rows; ++row) {
    const SiluAttendTask alone = silu_one_row(task, row);
    const bool finite =
        std::all_of(alone.out, alone.out + task.numbers_of_value(), [](float x) { return std::isfinite(x); });
    if (!finite) silu_attend_all(alone, scratch, false);
  }
}

void silu_attend(const SiluAttendTask& task, AttendScratch& scratch) {
  silu_attend_rows(task, scratch, false);
}
#if TROUPE_PAIR_TARGET
void silu_attend_in_pairs(const SiluAttendTask& task, AttendScratch& scratch) {
  silu_attend_rows(task, scratch, true);
}
#endif

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const SiluAttendVersion> silu_attend_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) {name, &space::silu_attend, (here & (target)) != 0},
  static const SiluAttendVersion versions[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512_bf16", &N_AVX3::silu_attend_in_pairs,
     (here & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16")},
#endif
    TROUPE_TARGETS(TROUPE_ENTRY){"reference", &silu_attend_reference, true}
  };
#undef TROUPE_ENTRY
  return versions;
}

void silu_attend(const SiluAttendTask& task, AttendScratch& scratch) {
  static SiluAttend* const chosen = first_usable(silu_attend_versions()).run;
  chosen(task, scratch);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
