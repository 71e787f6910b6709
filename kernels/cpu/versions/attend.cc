// Vector versions of attention. Query vectors (row x head) are grouped into blocks of tiles. For
// each panel of keys all tiles of the block compute their weights, then all add the panel's values,
// so that a panel's keys and then its values stay in the first-level cache while the block uses
// them. Keys and values are packed into panels on the way: once for the whole task, or panel by
// panel into one slot if a single block holds all queries; then values are not packed. For a
// handful of queries keys are not packed either. Keys and values of 16 bits are widened before, but
// those in bf16 are packed as pairs where the task allows it and the CPU has AVX512_BF16.
// Operations: 4 * head_dim per visible (query, key) and 11 to 14 for its weight. Bytes: keys and
// values read once and written once packed, then read from the packed copy once per block. Rows
// that come out infinite or NaN are computed again, each alone. If the task asks for attention
// mass, scores are computed a second time, when the rows' totals are known: 2 * head_dim operations
// more per pair.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/attend.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/versions/attend_panels_inl.h"
#include "kernels/cpu/versions/attend_tile_inl.h"
#include "kernels/operations/attend.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

static_assert(attend_mask_tokens % kPanel == 0, "a panel's mask must be read whole");

// Maximum rows of a block: enough for most tasks to be one block, few enough for their queries,
// weights and outputs to stay in the second-level cache (40 KiB for 96 rows of 64 columns). Levels
// of a beam search have some hundreds of rows: packing keys panel by panel, and no values, made 512
// rows on 1024 keys 5 % faster than packing all for blocks of 96.
inline constexpr std::size_t kBlockRows = 516;
inline constexpr std::size_t kBlockTiles = kBlockRows / kTileRows;
// Up to so many query vectors, keys and values are used where they are. Packing 1500 keys was 1.4
// to 2 times slower (as fast for three vectors, which run as four).
inline constexpr std::size_t kInPlaceRows = 4;
inline constexpr float kLog2E = 1.44269504f;

// The tile functions for one number of rows.
struct TileOps {
  std::size_t rows;
  decltype(&weigh_packed<1, false>) weigh, weigh_masked;
  // For two vectors of columns, or one; values in place, or packed.
  decltype(&accumulate<1, 1, true>) add_two, add_one, add_two_packed, add_one_packed;
};
template <std::size_t R>
inline constexpr TileOps kPackedOps = {R,
                                       &weigh_packed<R, false>,
                                       &weigh_packed<R, true>,
                                       &accumulate<R, 2, false>,
                                       &accumulate<R, 1, false>,
                                       &accumulate<R, 2, true>,
                                       &accumulate<R, 1, true>};
template <std::size_t R>
inline constexpr TileOps kInPlaceOps = {R,
                                        &weigh_in_place<R, false>,
                                        &weigh_in_place<R, true>,
                                        &accumulate<R, 2, false>,
                                        &accumulate<R, 1, false>,
                                        nullptr,
                                        nullptr};

#if TROUPE_PAIR_TARGET
template <std::size_t R>
inline constexpr TileOps kPairOps = {R,       &weigh_pairs<R, false>,  &weigh_pairs<R, true>,  nullptr,
                                     nullptr, &accumulate_pairs<R, 2>, &accumulate_pairs<R, 1>};

const TileOps& pair_ops(std::size_t rows) {
  if (rows <= 1) return kPairOps<1>;
  if (rows <= 2) return kPairOps<2>;
  if (rows <= 4) return kPairOps<4>;
  return rows <= 8 ? kPairOps<8> : kPairOps<kTileRows>;
}

template <std::size_t R>
inline constexpr TileOps kRoundedInPlaceOps = {R,
                                               &weigh_in_place<R, false, Rounding::floats>,
                                               &weigh_in_place<R, true, Rounding::floats>,
                                               &accumulate<R, 2, false>,
                                               &accumulate<R, 1, false>,
                                               nullptr,
                                               nullptr};

const TileOps& rounded_in_place_ops(std::size_t rows) {
  if (rows <= 1) return kRoundedInPlaceOps<1>;
  return rows <= 2 ? kRoundedInPlaceOps<2> : kRoundedInPlaceOps<kInPlaceRows>;
}
#endif

// The smallest tile that holds `rows` rows.
const TileOps& packed_ops(std::size_t rows) {
  if (rows <= 1) return kPackedOps<1>;
  if (rows <= 2) return kPackedOps<2>;
  if (rows <= 4) return kPackedOps<4>;
  if constexpr (kTileRows > 8) {
    if (rows <= 8) return kPackedOps<8>;
  }
  return kPackedOps<kTileRows>;
}
const TileOps& in_place_ops(std::size_t rows) {
  if (rows <= 1) return kInPlaceOps<1>;
  return rows <= 2 ? kInPlaceOps<2> : kInPlaceOps<kInPlaceRows>;
}
const TileOps& tile_ops(Keys keys, std::size_t rows) {
#if TROUPE_PAIR_TARGET
  if (keys == Keys::pairs) return pair_ops(rows);
  if (keys == Keys::in_place_rounded) return rounded_in_place_ops(rows);
#endif
  return keys == Keys::in_place ? in_place_ops(rows) : packed_ops(rows);
}

struct Tile {
  TileState state;
  const TileOps* ops;
  std::size_t first, rows;  // query vectors [first, first + rows); the tile may have more
  float* queries;           // [head_dim][R], [head_dim/2][R] pairs, or [R][head_dim] when keys stay in place
  float *weights, *out;     // [R][kPanel]; per two vectors of columns [R][2 vectors]
  // factor from a weight to its share of the row's total; 0 if the row does not count
  float shares[kTileRows];
  std::uint32_t begin[kTileRows], end[kTileRows];  // keys that each row sees in this phase
  std::uint32_t some_begin, some_end;              // a range that holds all keys that any row sees
  std::uint32_t all_begin, all_end;                // keys that every row sees
  std::size_t from, to;                            // keys of the current panel that some row sees
  bool raised;
};

// The state of up to kBlockTiles * kTileRows query vectors while they pass over all panels.
class RowBlock {
 public:
  RowBlock(const AttendTask& task, std::size_t vectors, Keys keys, float* storage)
      : task_(task),
        keys_(keys),
        key_steps_(task.head_dim / (keys == Keys::pairs ? 2 : 1)),
        width_(round_up(task.head_dim, kLanes)) {
    for (Tile& tile : std::span(tiles_, tiles_for(vectors))) {
      tile.queries = storage;
      tile.weights = tile.queries + round_up(kTileRows * task.head_dim, kPanel);
      tile.out = tile.weights + kTileRows * kPanel;
      storage = tile.out + kTileRows * width_;
    }
  }
  static std::size_t storage_floats(std::size_t vectors, std::size_t head_dim) {
    return tiles_for(vectors) *
           (round_up(kTileRows * head_dim, kPanel) + kTileRows * (kPanel + round_up(head_dim, kLanes)));
  }

  // Returns the number of tiles of the largest block for this many query vectors.
  static std::size_t tiles_for(std::size_t vectors) {
    return std::min(kBlockTiles, (vectors + kTileRows - 1) / kTileRows);
  }

  // Starts with query vectors [first, end).
  void start(std::size_t first, std::size_t end) {
    used_ = 0;
    for (; first < end; first += kTileRows)
      start_tile(tiles_[used_++], first, std::min(kTileRows, end - first));
  }

  void attend_context(Panels& context) {
    see_all(context);
    attend_panels(context);
  }

  void attend_tail(Panels& tail) {
    see_intervals();
    attend_panels(tail);
  }

  // Called after finish(): computes the scores again, now that each row's total is known.
  void add_mass(Panels& context, Panels& tail) {
    for (Tile& tile : tiles()) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        const bool counts = i < tile.rows && (tile.first + i) / task_.heads >= task_.mass_from;
        const float sum = total(tile, i);
        tile.shares[i] = counts && sum != 0 ? 1 / sum : 0.0f;
      }
    }
    see_all(context);
    add_mass(context, task_.mass);
    see_intervals();
    add_mass(tail, task_.mass + context.tokens());
  }

  // Writes the outputs. Returns false if one of them is infinite or NaN.
  bool finish() const {
    bool finite = true;
    for (const Tile& tile : std::span(tiles_, used_))
      for (std::size_t i = 0; i < tile.rows; ++i) finite = finish_row(tile, i) && finite;
    return finite;
  }

 private:
  std::span<Tile> tiles() { return {tiles_, used_}; }

  void see_all(const Panels& context) {
    masked_ = false;
    for (Tile& tile : tiles()) {
      std::fill(tile.begin, tile.begin + kTileRows, 0u);
      std::fill(tile.end, tile.end + kTileRows, std::uint32_t(context.tokens()));
      bound(tile);
    }
  }

  void see_intervals() {
    masked_ = task_.mask != nullptr;
    for (Tile& tile : tiles()) {
      for (std::size_t i = 0; i < kTileRows; ++i) {
        const std::size_t row = (tile.first + std::min(i, tile.rows - 1)) / task_.heads;
        tile.begin[i] = task_.tail_begin[row];
        tile.end[i] = std::max(task_.tail_begin[row], task_.tail_end[row]);
      }
      bound(tile);
    }
  }

  std::size_t offset(std::size_t vector, std::size_t stride) const {
    return vector / task_.heads * stride + vector % task_.heads * task_.head_dim;
  }

  void start_tile(Tile& tile, std::size_t first, std::size_t rows) {
    tile.ops = &tile_ops(keys_, rows);
    tile.first = first;
    tile.rows = rows;
    const float* queries[kTileRows];
    for (std::size_t i = 0; i < kTileRows; ++i)
      queries[i] = i < rows ? task_.queries + offset(first + i, task_.query_stride) : kZeros;
    const std::size_t count = tile.ops->rows * task_.head_dim;
    if (stay_in_place(keys_)) {
      for (std::size_t i = 0; i < tile.ops->rows; ++i)
        std::memcpy(tile.queries + i * task_.head_dim, queries[i], task_.head_dim * sizeof(float));
    } else {
      transpose(queries, tile.ops->rows, task_.head_dim, tile.queries, tile.ops->rows);
    }
    const Floats d;
    const Vec factor = hn::Set(d, task_.scale * kLog2E);
    for (float* q = tile.queries; q < tile.queries + count; q += kLanes)
      hn::Store(hn::Mul(hn::Load(d, q), factor), d, q);
#if TROUPE_PAIR_TARGET
    if (keys_ == Keys::pairs) round_queries(tile.queries, task_.head_dim, tile.ops->rows);
    if (keys_ == Keys::in_place_rounded) round_floats(tile.queries, count);
#endif
    std::fill(tile.state.largest, tile.state.largest + kTileRows, kLowest);
    std::fill(tile.state.limit, tile.state.limit + kTileRows, kLowest);
    clear(tile.state.totals, kTileRows * kLanes);
    clear(tile.out, kTileRows * width_);
  }

  // Clears whole vectors: std::fill becomes `rep stos`, which starts slowly.
  static HWY_INLINE void clear(float* values, std::size_t count) {
    const Floats d;
    for (float* const end = values + count; values < end; values += kLanes) hn::Store(hn::Zero(d), d, values);
  }

  static void bound(Tile& tile) {
    const std::size_t rows = tile.ops->rows;
    tile.some_begin = *std::min_element(tile.begin, tile.begin + rows);
    tile.all_begin = *std::max_element(tile.begin, tile.begin + rows);
    tile.all_end = *std::min_element(tile.end, tile.end + rows);
    tile.some_end = *std::max_element(tile.end, tile.end + rows);
  }

  void attend_panels(Panels& panels) {
    std::size_t begin = panels.tokens(), end = 0;
    for (const Tile& tile : tiles()) {
      if (tile.some_begin >= tile.some_end) continue;
      begin = std::min<std::size_t>(begin, tile.some_begin);
      end = std::max<std::size_t>(end, tile.some_end);
    }
    for (std::size_t panel = begin / kPanel; panel * kPanel < end; ++panel) {
      const std::size_t first_key = panel * kPanel;
      const Panel& here = panels.panel(panel);
      for (Tile& tile : tiles()) weigh_keys(tile, here, first_key);
      for (Tile& tile : tiles()) add_values(tile, here);
    }
  }

  void weigh_keys(Tile& tile, const Panel& panel, std::size_t first_key) const {
    const std::size_t end_key = first_key + kPanel;
    tile.from = std::max<std::size_t>(tile.some_begin, first_key) - first_key;
    tile.to = std::max<std::size_t>(std::min<std::size_t>(tile.some_end, end_key), first_key) - first_key;
    if (tile.from >= tile.to) return;
    if (tile.all_begin <= first_key && end_key <= tile.all_end && !masked_) {
      tile.raised = tile.ops->weigh(tile.queries, panel, key_steps_, nullptr, tile.state, tile.weights);
      return;
    }
    Visible visible[kTileRows];
    for (std::size_t i = 0; i < kTileRows; ++i)
      visible[i] = {float(tile.begin[i]) - float(first_key), float(tile.end[i]) - float(first_key),
                    masked_ ? mask_of(tile, i) + first_key : nullptr};
    tile.raised = tile.ops->weigh_masked(tile.queries, panel, key_steps_, visible, tile.state, tile.weights);
  }

  const float* mask_of(const Tile& tile, std::size_t i) const {
    return task_.mask + (tile.first + std::min(i, tile.rows - 1)) / task_.heads * task_.mask_stride;
  }

  void add_values(Tile& tile, const Panel& panel) const {
    if (tile.from >= tile.to) return;
    const float* const rescale = tile.raised ? tile.state.rescale : nullptr;
    const TileOps& ops = *tile.ops;
    const bool packed = panel.values != nullptr;
    for (std::size_t column = 0; column < width_; column += kPanel) {
      const auto add = column + kPanel <= width_ ? (packed ? ops.add_two_packed : ops.add_two)
                                                 : (packed ? ops.add_one_packed : ops.add_one);
      add(tile.weights, panel, width_, column, tile.from, tile.to, rescale,
          tile.out + column * tile.ops->rows);
    }
  }

  void add_mass(Panels& panels, float* mass) {
    for (std::size_t panel = 0; panel < panels.panels(); ++panel) {
      const std::size_t first_key = panel * kPanel;
      const Panel& here = panels.panel(panel);
      for (Tile& tile : tiles()) {
        if (*std::max_element(tile.shares, tile.shares + kTileRows) == 0) continue;
        weigh_keys(tile, here, first_key);
        for (std::size_t key = tile.from; key < tile.to; ++key) {
          float paid = 0;
          for (std::size_t i = 0; i < tile.rows; ++i) paid += tile.weights[i * kPanel + key] * tile.shares[i];
          mass[first_key + key] += paid;
        }
      }
    }
  }

  static float total(const Tile& tile, std::size_t i) {
    const Floats d;
    return hn::GetLane(hn::SumOfLanes(d, hn::Load(d, tile.state.totals + i * kLanes)));
  }

  bool finish_row(const Tile& tile, std::size_t i) const {
    const Floats d;
    Vec sum_of_zeros = hn::Zero(d);
    float* const out = task_.out + offset(tile.first + i, task_.out_stride);
    const float sum = total(tile, i);
    const float factor = sum == 0 ? 0.0f : 1 / sum;  // a row that sees no key is zero
    for (std::size_t column = 0; column < width_; column += kLanes) {
      const std::size_t pair =
          column / kPanel * kPanel;  // columns are stored in pairs of vectors, a last one alone
      const std::size_t pair_width = std::min(kPanel, width_ - pair);
      HWY_ALIGN float lanes[kLanes];
      const float* const from = tile.out + pair * tile.ops->rows + i * pair_width + (column - pair);
      const Vec mean = hn::Mul(hn::Load(d, from), hn::Set(d, factor));
      sum_of_zeros = hn::MulAdd(mean, hn::Zero(d), sum_of_zeros);
      hn::Store(mean, d, lanes);
      std::memcpy(out + column, lanes, std::min(kLanes, task_.head_dim - column) * sizeof(float));
    }
    return hn::AllTrue(d, hn::Eq(sum_of_zeros, hn::Zero(d)));
  }

  const AttendTask& task_;
  Keys keys_;
  std::size_t key_steps_;  // of a score's sum
  bool masked_ = false;    // the current keys are the tail's, and it has a mask
  std::size_t width_, used_ = 0;
  Tile tiles_[kBlockTiles];
};

// Measuring mass needs weights in float32.
Keys keys_of(const AttendTask& task, bool may_pair) {
  const std::size_t vectors = std::size_t{task.rows} * task.heads;
  const bool twice = task.mass != nullptr;
  const bool pairs = may_pair && task.may_round && !twice && task.head_dim % 2 == 0 &&
                     all_bf16(task.context) && all_bf16(task.tail);
  if (vectors <= kInPlaceRows && task.head_dim % kLanes == 0 && !twice)
    return pairs ? Keys::in_place_rounded : Keys::in_place;
  return pairs ? Keys::pairs : Keys::packed;
}

// Returns false if an output is infinite or NaN. `may_pair`: the CPU has AVX512_BF16.
bool attend_all(const AttendTask& task, AttendScratch& scratch, bool may_pair) {
  const std::size_t vectors = std::size_t{task.rows} * task.heads;
  const std::size_t width = round_up(task.head_dim, kLanes);
  const bool twice = task.mass != nullptr;
  const Keys keys = keys_of(task, may_pair);
  const bool one_block = vectors <= kBlockRows && !twice;
  const bool pairs = keys == Keys::pairs;
  Panels context(task.context, task.head_dim, width, task.head_dim, pairs),
      tail(task.tail, task.head_dim, width, task.head_dim, pairs);
  const std::size_t slots = one_block ? 1 : context.panels() + tail.panels();
  const std::size_t block_floats = RowBlock::storage_floats(vectors, task.head_dim),
                    key_floats = kPanel * task.head_dim;
  float* const storage = reserve(scratch, block_floats + key_floats + slots * context.slot_floats());
  float* const wide_keys = storage + block_floats;
  float* const slot = wide_keys + key_floats;
  if (stay_in_place(keys)) {
    context.leave_in_place(wide_keys, slot, keys == Keys::in_place_rounded);
    tail.leave_in_place(wide_keys, slot, keys == Keys::in_place_rounded);
  } else if (one_block) {
    context.pack_on_demand(wide_keys, slot);
    tail.pack_on_demand(wide_keys, slot);
  } else {
    context.pack_all(wide_keys, slot);
    tail.pack_all(wide_keys, slot + context.panels() * context.slot_floats());
  }
  RowBlock block(task, vectors, keys, storage);
  bool finite = true;
  for (std::size_t first = 0; first < vectors; first += kBlockRows) {
    block.start(first, std::min(vectors, first + kBlockRows));
    block.attend_context(context);
    block.attend_tail(tail);
    finite = block.finish() && finite;
    if (twice) block.add_mass(context, tail);
  }
  return finite;
}

AttendTask one_vector(AttendTask task, std::size_t row, std::size_t head) {
  task.queries += row * task.query_stride + head * task.head_dim;
  task.out += row * task.out_stride + head * task.head_dim;
  task.tail_begin = task.tail_begin.subspan(row, 1);
  task.tail_end = task.tail_end.subspan(row, 1);
  if (task.mask != nullptr) task.mask += row * task.mask_stride;
  task.rows = task.heads = 1;
  task.mass = nullptr;
  return task;
}

// In a tile, a value that a row does not see, but its neighbours do, counts with weight zero for
// it; and zero times infinity is NaN. A row alone in its tile meets only what it sees, unless a pair
// holds a key that it sees and one that it does not: so keys are not paired for it.
void attend_again(const AttendTask& task, AttendScratch& scratch) {
  for (std::size_t row = 0; row < task.rows; ++row)
    for (std::size_t head = 0; head < task.heads; ++head) {
      const AttendTask alone = one_vector(task, row, head);
      const bool finite =
          std::all_of(alone.out, alone.out + task.head_dim, [](float x) { return std::isfinite(x); });
      if (!finite) attend_all(alone, scratch, false);
    }
}

void attend_rows(const AttendTask& task, AttendScratch& scratch, bool may_pair) {
  if (task.rows == 0 || task.heads == 0 || attend_all(task, scratch, may_pair)) return;
  const bool alone = task.rows == 1 && task.heads == 1 && keys_of(task, may_pair) != Keys::pairs;
  if (!alone) attend_again(task, scratch);
}

void attend(const AttendTask& task, AttendScratch& scratch) { attend_rows(task, scratch, false); }
#if TROUPE_PAIR_TARGET
void attend_in_pairs(const AttendTask& task, AttendScratch& scratch) { attend_rows(task, scratch, true); }
#endif

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const AttendVersion> attend_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) {name, &space::attend, (here & (target)) != 0},
  static const AttendVersion versions[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512_bf16", &N_AVX3::attend_in_pairs, (here & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16")},
#endif
    TROUPE_TARGETS(TROUPE_ENTRY){"reference", &attend_reference, true}
  };
#undef TROUPE_ENTRY
  return versions;
}

void attend(const AttendTask& task, AttendScratch& scratch) {
  static Attend* const chosen = first_usable(attend_versions()).run;
  chosen(task, scratch);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
