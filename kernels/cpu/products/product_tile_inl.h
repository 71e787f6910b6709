// The register tile of the matrix product, included once per target: R input rows against P panels
// of the weight, each two vectors wide. 2RP accumulators, the 2P weights of one column and a
// broadcast fit the register file. With 12 rows and one panel a column costs 2 loads and 12
// broadcasts for 24 fused multiply-adds, well under what the load ports give. So the input is
// broadcast from where it is, and nothing is copied. A weight in bf16 has two columns in each word
// (product.h); a step of the tile's loop takes one word of each of a panel's rows. A weight in bytes has
// four columns in each word; words of input and sums of int32 are kept in vectors of floats, whose bits
// are the same.
#if defined(TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#undef TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#else
#define TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/cpu/products/bytes_inl.h"
#include "kernels/cpu/versions/pairs_inl.h"
#include "kernels/operations/quantize.h"

#undef TROUPE_UNROLL
#define TROUPE_UNROLL HWY_UNROLL(16)
// Forces the vector's value into a register here. Without this g++ 12 loads a weight again for
// every row that it is multiplied with, or multiplies columns ahead of their sums until it runs out
// of registers: 2 and 3 rows were 1.4 times slower, and SSE4 spilled most of its sums.
#undef TROUPE_SETTLE
#if HWY_ARCH_X86 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
#define TROUPE_SETTLE(vector) asm("" : "+v"(vector.raw))
#else
#define TROUPE_SETTLE(vector) static_cast<void>(0)
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kPanel = 2 * kLanes;  // columns of a panel
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;  // 32, else 16
inline constexpr std::size_t kTileRows = kManyRegisters ? 12 : 6;
inline constexpr std::size_t kRound = 4;        // steps in one round of the tile's loop
inline constexpr std::size_t kLineFloats = 16;  // of a cache line

// The arithmetic of a step. `kInputs`: floats of an input row that a step reads.
struct FloatStep {  // one column in float32
  static constexpr std::size_t kInputs = 1;
};
struct WidenedStep {  // two columns in bf16, widened to float32 in registers
  static constexpr std::size_t kInputs = 2;
};
struct PairStep {  // two columns in bf16, multiplied with a pair of inputs that was rounded to bf16
  static constexpr std::size_t kInputs = 1;
};
struct ByteStep {  // four columns in bytes, multiplied with a word of four bytes; int32 sums
  static constexpr std::size_t kInputs = 1;
};
struct VnniStep {  // the same, in one instruction
  static constexpr std::size_t kInputs = 1;
};
template <class Step>
inline constexpr bool kSumsIntegers = std::is_same_v<Step, ByteStep> || std::is_same_v<Step, VnniStep>;

// Input of a tile: `steps` steps, from the one that all pointers point at.
struct Tile {
  const float* in;
  std::size_t in_stride;
  const float* weights;
  std::size_t panel_floats;  // from one panel to the next
  std::size_t steps;
  bool half;                // WidenedStep: one more step, of which only the first column exists
  const float* ahead;       // weights to prefetch into the second-level cache:
  std::size_t ahead_lines;  // this many cache lines in each round
  const float* bias;        // null: none
  float* out;
  std::size_t out_stride;
  bool add;
  const RowScale* row_scales;  // of the tile's rows; null: sums are stored as they are
  ColumnScales columns;        // from the tile's first column on
  bool add_values;             // with `row_scales`
};

// Addresses R rows with few base pointers: row i is at rows[i / 3] + i % 3 * stride, which is one
// x86 operand, so that 12 rows need four pointers instead of twelve.
template <std::size_t R>
inline constexpr std::size_t kBases = (R + 2) / 3;

// Adds value · weight to the sum; with PairStep both are pairs, whose two products are added, and with
// steps of bytes words of four.
template <class Step>
HWY_INLINE void multiply_add(const Vec& value, const Vec& weight, Vec& sum) {
#if TROUPE_PAIR_TARGET
  if constexpr (std::is_same_v<Step, PairStep>) return add_pair_products(value, weight, sum);
#endif
#if TROUPE_VNNI_TARGET
  if constexpr (std::is_same_v<Step, VnniStep>) return add_byte_products_vnni(value, weight, sum);
#endif
#if TROUPE_BYTE_TARGET
  if constexpr (std::is_same_v<Step, ByteStep>) {
    add_byte_products(value, weight, sum);
    TROUPE_SETTLE(sum);
    return;
  }
#endif
  sum = hn::MulAdd(value, weight, sum);
  TROUPE_SETTLE(sum);
}

// Adds the products of each row's input number `input` with one weight for each of the sums' columns.
template <class Step, std::size_t R, std::size_t P>
HWY_INLINE void add_column(const float* const (&rows)[kBases<R>], std::size_t stride, std::size_t input,
                           const Vec (&weight)[2 * P], Vec (&sum)[R][2 * P]) {
  const Floats d;
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    const Vec value = hn::Set(d, rows[i / 3][i % 3 * stride + input]);
    TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) multiply_add<Step>(value, weight[c], sum[i][c]);
  }
}

// Adds one step; with kHalf only the first of its two columns. The words of two columns are loaded
// for each: with 16 registers there is none to keep them in.
template <class Step, bool kHalf, std::size_t R, std::size_t P>
HWY_INLINE void add_step(const float* const (&rows)[kBases<R>], std::size_t stride,
                         const float* const (&panels)[P], std::size_t step, Vec (&sum)[R][2 * P]) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  constexpr bool kWidens = std::is_same_v<Step, WidenedStep>;
  const auto words = [&](std::size_t c)
                         HWY_ATTR { return hn::LoadU(d, panels[c / 2] + step * kPanel + c % 2 * kLanes); };
  Vec weight[2 * P];
  TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
    weight[c] = words(c);
    if constexpr (kWidens) weight[c] = hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(du, weight[c])));
    TROUPE_SETTLE(weight[c]);
  }
  add_column<Step, R, P>(rows, stride, Step::kInputs * step, weight, sum);
  if constexpr (kWidens && !kHalf) {
    const Vec upper = hn::BitCast(d, hn::Set(du, 0xffff0000u));
    TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
      weight[c] = hn::And(words(c), upper);
      TROUPE_SETTLE(weight[c]);
    }
    add_column<Step, R, P>(rows, stride, 2 * step + 1, weight, sum);
  }
}

template <class Step>
HWY_INLINE Vec add_sums(const Vec& a, const Vec& b) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  if constexpr (kSumsIntegers<Step>) return hn::BitCast(d, hn::Add(hn::BitCast(di, a), hn::BitCast(di, b)));
  return hn::Add(a, b);
}

template <class Step, std::size_t R, std::size_t P>
HWY_INLINE void start_sums(const Tile& tile, Vec (&sum)[R][2 * P]) {
  const Floats d;
  TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
    const Vec bias = tile.bias != nullptr ? hn::LoadU(d, tile.bias + c * kLanes) : hn::Zero(d);
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) sum[i][c] = bias;
  }
  if (!tile.add) return;
  const float* out = tile.out;
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i, out += tile.out_stride)
      TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) sum[i][c] =
          add_sums<Step>(sum[i][c], hn::LoadU(d, out + c * kLanes));
}

// Turns int32 sums into values as DequantizeRows does, and stores them.
template <std::size_t R, std::size_t P>
HWY_INLINE void store_values(const Tile& tile, const Vec (&sum)[R][2 * P]) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
    const auto column_sum = hn::LoadU(di, tile.columns.sums + c * kLanes);
    const Vec column_scale = hn::LoadU(d, tile.columns.scales + c * kLanes);
    const Vec bias = hn::LoadU(d, tile.columns.bias + c * kLanes);
    float* out = tile.out + c * kLanes;
    TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i, out += tile.out_stride) {
      const RowScale& row = tile.row_scales[i];
      const auto centred = hn::Sub(hn::BitCast(di, sum[i][c]), hn::Mul(hn::Set(di, row.zero), column_sum));
      Vec value = hn::MulAdd(hn::Mul(hn::ConvertTo(d, centred), column_scale), hn::Set(d, row.scale), bias);
      if (tile.add_values) value = hn::Add(hn::LoadU(d, out), value);
      hn::StoreU(value, d, out);
    }
  }
}

// Writes [R][P panels] of the output.
template <class Step, std::size_t R, std::size_t P>
HWY_NOINLINE void multiply_tile(const Tile& tile) {
  const Floats d;
  Vec sum[R][2 * P];
  start_sums<Step, R, P>(tile, sum);
  const std::size_t stride = tile.in_stride, ahead_floats = tile.ahead_lines * kLineFloats;
  const float *rows[kBases<R>], *panels[P], *ahead = tile.ahead, *limit = ahead;
  TROUPE_UNROLL for (std::size_t b = 0; b < kBases<R>; ++b) rows[b] = tile.in + 3 * b * stride;
  TROUPE_UNROLL for (std::size_t p = 0; p < P; ++p) panels[p] = tile.weights + p * tile.panel_floats;
  std::size_t left = tile.steps;
  for (; left >= kRound; left -= kRound) {
    for (limit += ahead_floats; ahead < limit; ahead += kLineFloats) __builtin_prefetch(ahead, 0, 2);
    TROUPE_UNROLL for (std::size_t k = 0; k < kRound; ++k)
        add_step<Step, false, R, P>(rows, stride, panels, k, sum);
    TROUPE_UNROLL for (std::size_t b = 0; b < kBases<R>; ++b) rows[b] += kRound * Step::kInputs;
    TROUPE_UNROLL for (std::size_t p = 0; p < P; ++p) panels[p] += kRound * kPanel;
  }
  for (std::size_t k = 0; k < left; ++k) add_step<Step, false, R, P>(rows, stride, panels, k, sum);
  if constexpr (std::is_same_v<Step, WidenedStep>)
    if (tile.half) add_step<Step, true, R, P>(rows, stride, panels, left, sum);
  if constexpr (kSumsIntegers<Step>)
    if (tile.row_scales != nullptr) return store_values<R, P>(tile, sum);
  float* out = tile.out;
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i, out += tile.out_stride)
      TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) hn::StoreU(sum[i][c], d, out + c * kLanes);
}

// Widens the words of a panel: [steps][kPanel] words to [columns][kPanel] floats.
inline HWY_NOINLINE void widen_panel(const float* words, std::size_t columns, float* out) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto upper = hn::Set(du, 0xffff0000u);
  for (std::size_t column = 0; column < columns; column += 2, words += kPanel, out += 2 * kPanel)
    TROUPE_UNROLL for (std::size_t c = 0; c < kPanel; c += kLanes) {
      const auto pair = hn::BitCast(du, hn::LoadU(d, words + c));
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(pair)), d, out + c);
      if (column + 1 < columns) hn::StoreU(hn::BitCast(d, hn::And(pair, upper)), d, out + kPanel + c);
    }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
