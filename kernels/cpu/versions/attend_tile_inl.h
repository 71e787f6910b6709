// The register tiles of attention, included once per target: R query vectors against a panel of kPanel keys
// (two vectors wide), then the panel's values. 2R accumulators + 2 operands + 1 broadcast fill the register
// file, and each step of head_dim costs 2 loads and R broadcasts for 2R fused multiply-adds. Queries and keys
// are transposed first
// ([head_dim][R], [head_dim][kPanel]) so that every address is a constant away from one pointer, for any
// head_dim. With AVX512_BF16 keys and values in bf16 stay so: two columns of a key, or the values of two
// keys, are a word of 32 bits (pairs_inl.h), and a step of the same loops multiplies words. Queries and
// weights are rounded to bf16 for it; sums are float32.
#if defined(TROUPE_KERNELS_CPU_ATTEND_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTEND_TILE_INL_H
#undef TROUPE_KERNELS_CPU_ATTEND_TILE_INL_H
#else
#define TROUPE_KERNELS_CPU_ATTEND_TILE_INL_H
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/cpu/versions/exponential_inl.h"
#include "kernels/cpu/versions/pairs_inl.h"

#undef TROUPE_UNROLL
#define TROUPE_UNROLL HWY_UNROLL(16)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kPanel = 2 * kLanes;                                         // keys of a panel
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;  // 32, else 16
inline constexpr std::size_t kTileRows = kManyRegisters ? 12 : 6;
inline constexpr float kLowest = std::numeric_limits<float>::lowest();
// Weights are 2^(score - largest); `largest` may lag behind the true maximum by this much before
// sums are rescaled.
inline constexpr float kSlack = 8;

// One panel of tokens: packed (keys [head_dim][kPanel], values [kPanel][width]), packed in pairs (keys
// [head_dim/2][kPanel], values [kPanel/2][width]) or in place (a pointer per token, to float32); null
// if they are not packed.
struct Panel {
  const float *keys = nullptr, *values = nullptr;
  const float *key_rows[kPanel], *value_rows[kPanel];
};

// The keys of a panel that one row sees: [begin, end) in keys of the panel. If the panel has a
// mask, only those whose entry is not 0.
struct Visible {
  float begin, end;
  const float* mask;
};

// Running softmax of the rows of a tile. A row that has seen no key yet has largest = kLowest.
struct TileState {
  float largest[kTileRows];
  float limit[kTileRows];                      // largest + kSlack: a score above it forces a rescale
  float rescale[kTileRows];                    // factor of the row's output, if weigh() returns true
  HWY_ALIGN float totals[kTileRows * kLanes];  // sums of weights, lane by lane
};

// Returns x, or NaN if x is infinite. An infinite score could be minus infinity and pass for an
// unimportant key.
template <class V>
HWY_INLINE V infinity_to_nan(V x) {
  return hn::MulAdd(x, hn::Zero(hn::DFromV<V>()), x);
}

// Raises `largest` of the rows whose scores in s exceed their limit, and scales their totals down.
// kWhole: to a whole number. Then weights change by powers of two, and their rounding to bf16 does not
// depend on where the panels' limits are.
template <std::size_t R, bool kWhole>
HWY_NOINLINE void raise(const float* row_maxima, TileState& state) {
  const Floats d;
  for (std::size_t i = 0; i < R; ++i) {
    state.rescale[i] = 1;
    float maximum = hn::GetLane(hn::MaxOfLanes(d, hn::Load(d, row_maxima + i * kLanes)));
    if (!(maximum > state.limit[i])) continue;
    if constexpr (kWhole) maximum = std::ceil(maximum);
    const float drop = state.largest[i] - maximum;
    state.rescale[i] = drop < -125 ? 0.0f : hn::GetLane(exp2_fast(d, hn::Set(d, drop)));
    state.largest[i] = maximum;
    state.limit[i] = maximum + kSlack;
    float* const totals = state.totals + i * kLanes;
    hn::Store(hn::Mul(hn::Load(d, totals), hn::Set(d, state.rescale[i])), d, totals);
  }
}

// How the weights of a panel are stored: as they are, rounded to bf16, or so and two keys in a word.
enum class Rounding : std::uint8_t { none, floats, pairs };

#if TROUPE_PAIR_TARGET
template <Rounding kRounding>
HWY_INLINE void store_rounded(__m512i rounded, float* weights) {
  if constexpr (kRounding == Rounding::pairs) {
    _mm512_store_si512(weights, rounded);
  } else {
    _mm512_store_ps(weights, widen_lower(rounded));
    _mm512_store_ps(weights + kLanes, widen_upper(rounded));
  }
}
#endif

// Turns the scores s of a panel into weights[i][key] = 2^(score - largest_i), zero where row i does
// not see the key (kMasked only), and adds them to the totals. Returns true if the rows' outputs
// must be rescaled before the panel's values are added. Totals are of the rounded weights, so that a
// lone key's value is its row's output.
template <std::size_t R, bool kMasked, Rounding kRounding = Rounding::none>
HWY_INLINE bool weigh(Vec (&s)[R][2], const Visible* visible, TileState& state, float* HWY_RESTRICT weights) {
  const Floats d;
  const Vec hidden = hn::Set(d, kLowest);
  if constexpr (kMasked) {
    const Vec low = hn::Iota(d, 0.0f), high = hn::Iota(d, float(kLanes));
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec begin = hn::Set(d, visible[i].begin), end = hn::Set(d, visible[i].end);
      s[i][0] = hn::IfThenElse(hn::And(hn::Ge(low, begin), hn::Lt(low, end)), s[i][0], hidden);
      s[i][1] = hn::IfThenElse(hn::And(hn::Ge(high, begin), hn::Lt(high, end)), s[i][1], hidden);
      if (visible[i].mask != nullptr) {
        const Vec zero = hn::Zero(d);
        s[i][0] = hn::IfThenElse(hn::Ne(hn::LoadU(d, visible[i].mask), zero), s[i][0], hidden);
        s[i][1] = hn::IfThenElse(hn::Ne(hn::LoadU(d, visible[i].mask + kLanes), zero), s[i][1], hidden);
      }
    }
  }
  auto above = hn::Gt(hn::Max(s[0][0], s[0][1]), hn::Set(d, state.limit[0]));
  TROUPE_UNROLL for (std::size_t i = 1; i < R; ++i) above =
      hn::Or(above, hn::Gt(hn::Max(s[i][0], s[i][1]), hn::Set(d, state.limit[i])));
  const bool raised = !hn::AllFalse(d, above);
  if (HWY_UNLIKELY(raised)) {
    HWY_ALIGN float row_maxima[R * kLanes];
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i)
        hn::Store(hn::Max(s[i][0], s[i][1]), d, row_maxima + i * kLanes);
    raise<R, kRounding != Rounding::none>(row_maxima, state);
  }
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    const Vec largest = hn::Set(d, state.largest[i]);
    Vec low = exp2_fast(d, hn::Sub(s[i][0], largest)), high = exp2_fast(d, hn::Sub(s[i][1], largest));
    if constexpr (kMasked) {
      low = hn::IfThenZeroElse(hn::Eq(s[i][0], hidden), low);
      high = hn::IfThenZeroElse(hn::Eq(s[i][1], hidden), high);
    }
    float* const totals = state.totals + i * kLanes;
#if TROUPE_PAIR_TARGET
    if constexpr (kRounding != Rounding::none) {
      const Vec rounded{_mm512_castsi512_ps(round_to_bf16(low.raw, high.raw))};
      const Vec ones{_mm512_castsi512_ps(_mm512_set1_epi16(0x3f80))};
      Vec total = hn::Load(d, totals);
      add_pair_products(rounded, ones, total);
      hn::Store(total, d, totals);
      store_rounded<kRounding>(_mm512_castps_si512(rounded.raw), weights + i * kPanel);
      continue;
    }
#endif
    hn::Store(hn::Add(hn::Load(d, totals), hn::Add(low, high)), d, totals);
    hn::Store(low, d, weights + i * kPanel);
    hn::Store(high, d, weights + i * kPanel + kLanes);
  }
  return raised;
}

// weigh() on the scores of queries [columns][R] with a packed panel of keys [columns][kPanel].
template <std::size_t R, bool kMasked>
HWY_NOINLINE bool weigh_packed(const float* HWY_RESTRICT queries, const Panel& panel, std::size_t columns,
                               const Visible* visible, TileState& state, float* HWY_RESTRICT weights) {
  const Floats d;
  const float* HWY_RESTRICT keys = panel.keys;
  Vec s[R][2];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) s[i][0] = s[i][1] = hn::Zero(d);
  for (std::size_t c = 0; c < columns; ++c, queries += R, keys += kPanel) {
    const Vec low = hn::Load(d, keys), high = hn::Load(d, keys + kLanes);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec q = hn::Set(d, queries[i]);
      s[i][0] = hn::MulAdd(q, low, s[i][0]);
      s[i][1] = hn::MulAdd(q, high, s[i][1]);
    }
  }
  return weigh<R, kMasked>(s, visible, state, weights);
}

#if TROUPE_PAIR_TARGET
// weigh_packed() on words of two columns: queries [words][R], keys [words][kPanel].
template <std::size_t R, bool kMasked>
HWY_NOINLINE bool weigh_pairs(const float* HWY_RESTRICT queries, const Panel& panel, std::size_t words,
                              const Visible* visible, TileState& state, float* HWY_RESTRICT weights) {
  const Floats d;
  const float* HWY_RESTRICT keys = panel.keys;
  Vec s[R][2];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) s[i][0] = s[i][1] = hn::Zero(d);
  for (std::size_t c = 0; c < words; ++c, queries += R, keys += kPanel) {
    const Vec low = hn::Load(d, keys), high = hn::Load(d, keys + kLanes);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec q = hn::Set(d, queries[i]);
      add_pair_products(q, low, s[i][0]);
      add_pair_products(q, high, s[i][1]);
    }
  }
  return weigh<R, kMasked, Rounding::pairs>(s, visible, state, weights);
}
#endif

// weigh() on the scores of queries [columns][R] with keys in place; columns is a multiple of
// kLanes.
template <std::size_t R, bool kMasked, Rounding kRounding = Rounding::none>
HWY_NOINLINE bool weigh_in_place(const float* HWY_RESTRICT queries, const Panel& panel, std::size_t columns,
                                 const Visible* visible, TileState& state, float* HWY_RESTRICT weights) {
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
    s[i][0] = infinity_to_nan(hn::Load(d, dots + i * kPanel));
    s[i][1] = infinity_to_nan(hn::Load(d, dots + i * kPanel + kLanes));
  }
  return weigh<R, kMasked, kRounding>(s, visible, state, weights);
}

// One column block, C vectors wide: out[i] = rescale_i * out[i] + sum over keys in [begin, end) of
// weights[i][key] * the key's value at `column`. `rescale` may be null for one.
template <std::size_t R, std::size_t C, bool kPacked>
HWY_NOINLINE void accumulate(const float* HWY_RESTRICT weights, const Panel& panel, std::size_t width,
                             std::size_t column, std::size_t begin, std::size_t end, const float* rescale,
                             float* HWY_RESTRICT out) {
  const Floats d;
  Vec sum[R][C];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
      sum[i][c] = hn::Load(d, out + (i * C + c) * kLanes);
  if (rescale != nullptr) {
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
        sum[i][c] = hn::Mul(sum[i][c], hn::Set(d, rescale[i]));
  }
  for (std::size_t key = begin; key < end; ++key) {
    const float* const values = (kPacked ? panel.values + key * width : panel.value_rows[key]) + column;
    Vec value[C];
    TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c) value[c] = hn::LoadU(d, values + c * kLanes);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec weight = hn::Set(d, weights[i * kPanel + key]);
      TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c) sum[i][c] = hn::MulAdd(weight, value[c], sum[i][c]);
    }
  }
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
      hn::Store(sum[i][c], d, out + (i * C + c) * kLanes);
}

#if TROUPE_PAIR_TARGET
// accumulate() on words of two keys: weights [R][kPanel], of which the first kPanel / 2 are used, and
// values [kPanel / 2][width]. A pair may hold a key that no row sees: its weight is 0. If its value is
// not finite, the outputs are NaN and the rows are computed again without pairs.
template <std::size_t R, std::size_t C>
HWY_NOINLINE void accumulate_pairs(const float* HWY_RESTRICT weights, const Panel& panel, std::size_t width,
                                   std::size_t column, std::size_t begin, std::size_t end,
                                   const float* rescale, float* HWY_RESTRICT out) {
  const Floats d;
  Vec sum[R][C];
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
      sum[i][c] = hn::Load(d, out + (i * C + c) * kLanes);
  if (rescale != nullptr) {
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
        sum[i][c] = hn::Mul(sum[i][c], hn::Set(d, rescale[i]));
  }
  for (std::size_t pair = begin / 2; pair < (end + 1) / 2; ++pair) {
    const float* const values = panel.values + pair * width + column;
    Vec value[C];
    TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c) value[c] = hn::LoadU(d, values + c * kLanes);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
      const Vec weight = hn::Set(d, weights[i * kPanel + pair]);
      TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c) add_pair_products(weight, value[c], sum[i][c]);
    }
  }
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) TROUPE_UNROLL for (std::size_t c = 0; c < C; ++c)
      hn::Store(sum[i][c], d, out + (i * C + c) * kLanes);
}

// Makes every infinity of a vector of bf16 numbers NaN.
HWY_INLINE __m512 infinity_to_nan_pairs(__m512 pairs) {
  const __m512i bits = _mm512_castps_si512(pairs), infinity = _mm512_set1_epi16(0x7f80);
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi16(0x7fff));
  const __mmask32 infinite = _mm512_cmpeq_epi16_mask(magnitude, infinity);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi16(0x0040));
  return _mm512_castsi512_ps(_mm512_mask_mov_epi16(bits, infinite, quiet));
}

// Turns queries [columns][R] into pairs [columns / 2][R], in place.
inline HWY_NOINLINE void round_queries(float* queries, std::size_t columns, std::size_t rows) {
  const __mmask16 used = static_cast<__mmask16>((1u << rows) - 1);
  for (std::size_t c = 0; c + 2 <= columns; c += 2) {
    const float* const from = queries + c * rows;
    const __m512i halves =
        round_to_bf16(_mm512_maskz_loadu_ps(used, from), _mm512_maskz_loadu_ps(used, from + rows));
    _mm512_mask_storeu_epi32(
        queries + c / 2 * rows, used,
        interleave_halves(_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64(halves, 1)));
  }
}

// out[c] = the numbers at `column` of two rows of values in bf16, as words, for `width` columns; zero
// from `count` columns on. `width` is a multiple of kLanes.
inline HWY_NOINLINE void pair_values(const std::uint16_t* first, const std::uint16_t* second,
                                     std::size_t count, std::size_t width, float* out) {
  for (std::size_t c = 0; c < width; c += 16) {
    const std::size_t here = count > c ? (count - c < 16 ? count - c : 16) : 0;
    const __mmask16 used = static_cast<__mmask16>((1u << here) - 1);
    _mm512_storeu_si512(out + c, interleave_halves(_mm256_maskz_loadu_epi16(used, first + c),
                                                   _mm256_maskz_loadu_epi16(used, second + c)));
  }
}
#endif

#if HWY_TARGET == HWY_AVX3
// out[c][row] = rows[row][first + c] for sixteen columns of up to sixteen rows; infinity becomes
// NaN. kPairs: a column is a word of two numbers in bf16.
template <bool kPairs>
HWY_NOINLINE void transpose_sixteen(const float* const* rows, std::size_t count, std::size_t first,
                                    float* HWY_RESTRICT out, std::size_t out_stride) {
  __m512 pairs[16], fours[16];
  for (std::size_t r = 0; r < 16; r += 2) {
    const auto load = [&](std::size_t row) HWY_ATTR {
      if (row >= count) return _mm512_setzero_ps();
      const Vec loaded = hn::LoadU(Floats(), rows[row] + first);
      if constexpr (kPairs) return infinity_to_nan_pairs(loaded.raw);
      return infinity_to_nan(loaded).raw;
    };
    const __m512 a = load(r), b = load(r + 1);
    pairs[r] = _mm512_unpacklo_ps(a, b);
    pairs[r + 1] = _mm512_unpackhi_ps(a, b);
  }
  for (std::size_t r = 0; r < 16; ++r) {  // fours[4g + k]: of column 4b + k, rows 4g on, in block b
    const std::size_t from = r / 4 * 4 + (r % 4) / 2;
    const __m512d a = _mm512_castps_pd(pairs[from]), b = _mm512_castps_pd(pairs[from + 2]);
    fours[r] = _mm512_castpd_ps(r % 2 == 0 ? _mm512_unpacklo_pd(a, b) : _mm512_unpackhi_pd(a, b));
  }
  const __mmask16 used = static_cast<__mmask16>((1u << count) - 1);
  for (std::size_t k = 0; k < 4; ++k) {
    const __m512 even = _mm512_shuffle_f32x4(fours[k], fours[4 + k], 0x88);
    const __m512 odd = _mm512_shuffle_f32x4(fours[k], fours[4 + k], 0xdd);
    const __m512 even_below = _mm512_shuffle_f32x4(fours[8 + k], fours[12 + k], 0x88);
    const __m512 odd_below = _mm512_shuffle_f32x4(fours[8 + k], fours[12 + k], 0xdd);
    float* const to = out + k * out_stride;
    _mm512_mask_storeu_ps(to, used, _mm512_shuffle_f32x4(even, even_below, 0x88));
    _mm512_mask_storeu_ps(to + 4 * out_stride, used, _mm512_shuffle_f32x4(odd, odd_below, 0x88));
    _mm512_mask_storeu_ps(to + 8 * out_stride, used, _mm512_shuffle_f32x4(even, even_below, 0xdd));
    _mm512_mask_storeu_ps(to + 12 * out_stride, used, _mm512_shuffle_f32x4(odd, odd_below, 0xdd));
  }
}

// Returns a column of a row that has fewer than sixteen left; infinity becomes NaN.
template <bool kPairs>
HWY_INLINE float column_of(const float* row, std::size_t column) {
  float value;  // rows of bf16 numbers may begin at an odd multiple of two bytes
  std::memcpy(&value, row + column, sizeof(value));
  if constexpr (!kPairs) return value + 0 * value;
  return _mm512_cvtss_f32(infinity_to_nan_pairs(_mm512_set1_ps(value)));
}

// out[c][row] = rows[row][c]; infinity becomes NaN. Sixteen rows and sixteen columns at a time, in
// registers.
template <bool kPairs = false>
HWY_NOINLINE void transpose(const float* const* rows, std::size_t count, std::size_t columns,
                            float* HWY_RESTRICT out, std::size_t out_stride) {
  for (std::size_t r = 0; r < count; r += 16) {
    const std::size_t here = count - r < 16 ? count - r : 16;
    std::size_t c = 0;
    for (; c + 16 <= columns; c += 16)
      transpose_sixteen<kPairs>(rows + r, here, c, out + c * out_stride + r, out_stride);
    for (; c < columns; ++c)
      for (std::size_t k = r; k < r + here; ++k) out[c * out_stride + k] = column_of<kPairs>(rows[k], c);
  }
}
#else
// out[c][row] = rows[row][c]; infinity becomes NaN. Four rows and four columns at a time, in
// registers.
inline HWY_NOINLINE void transpose(const float* const* rows, std::size_t count, std::size_t columns,
                                   float* HWY_RESTRICT out, std::size_t out_stride) {
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  const auto load = [&](const float* from) HWY_ATTR { return infinity_to_nan(hn::LoadU(d4, from)); };
  const auto pair = [&](auto a, auto b, bool upper) HWY_ATTR {
    const auto x = hn::BitCast(d2, a), y = hn::BitCast(d2, b);
    return hn::BitCast(d4, upper ? hn::InterleaveUpper(d2, x, y) : hn::InterleaveLower(d2, x, y));
  };
  std::size_t r = 0;
  for (; r + 4 <= count; r += 4) {
    std::size_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const auto a0 = load(rows[r] + c), a1 = load(rows[r + 1] + c);
      const auto a2 = load(rows[r + 2] + c), a3 = load(rows[r + 3] + c);
      const auto low01 = hn::InterleaveLower(d4, a0, a1), low23 = hn::InterleaveLower(d4, a2, a3);
      const auto high01 = hn::InterleaveUpper(d4, a0, a1), high23 = hn::InterleaveUpper(d4, a2, a3);
      float* const to = out + c * out_stride + r;
      hn::StoreU(pair(low01, low23, false), d4, to);
      hn::StoreU(pair(low01, low23, true), d4, to + out_stride);
      hn::StoreU(pair(high01, high23, false), d4, to + 2 * out_stride);
      hn::StoreU(pair(high01, high23, true), d4, to + 3 * out_stride);
    }
    for (; c < columns; ++c)
      for (std::size_t k = r; k < r + 4; ++k) out[c * out_stride + k] = rows[k][c] + 0 * rows[k][c];
  }
  for (; r < count; ++r)
    for (std::size_t c = 0; c < columns; ++c) out[c * out_stride + r] = rows[r][c] + 0 * rows[r][c];
}
#endif  // HWY_AVX3

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
