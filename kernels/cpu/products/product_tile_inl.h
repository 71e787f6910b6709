// The register tile of the matrix product, included once per target: R input rows against P panels
// of the weight, each two vectors wide. 2RP accumulators, the 2P weights of one column and a
// broadcast fit the register file. With 12 rows and one panel a column costs 2 loads and 12
// broadcasts for 24 fused multiply-adds, well under what the load ports give. So the input is
// broadcast from where it is, and nothing is copied.
#if defined(TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#undef TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#else
#define TROUPE_KERNELS_CPU_PRODUCT_TILE_INL_H
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

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
inline constexpr std::size_t kRound = 4;        // columns of the weight in one round of the tile's loop
inline constexpr std::size_t kLineFloats = 16;  // of a cache line

// Input of a tile: `columns` columns of the weight, from the one that all pointers point at.
struct Tile {
  const float* in;
  std::size_t in_stride;
  const float* weights;
  std::size_t panel_floats;  // from one panel to the next
  std::size_t columns;
  const float* ahead;       // weights to prefetch into the second-level cache:
  std::size_t ahead_lines;  // this many cache lines in each round
  const float* bias;        // null: none
  float* out;
  std::size_t out_stride;
  bool add;
};

// Addresses R rows with few base pointers: row i is at rows[i / 3] + i % 3 * stride, which is one
// x86 operand, so that 12 rows need four pointers instead of twelve.
template <std::size_t R>
inline constexpr std::size_t kBases = (R + 2) / 3;

template <std::size_t R, std::size_t P>
HWY_INLINE void add_column(const float* const (&rows)[kBases<R>], std::size_t stride,
                           const float* const (&panels)[P], std::size_t column, Vec (&sum)[R][2 * P]) {
  const Floats d;
  Vec weight[2 * P];
  TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
    weight[c] = hn::LoadU(d, panels[c / 2] + column * kPanel + c % 2 * kLanes);
    TROUPE_SETTLE(weight[c]);
  }
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i) {
    const Vec value = hn::Set(d, rows[i / 3][i % 3 * stride + column]);
    TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) {
      sum[i][c] = hn::MulAdd(value, weight[c], sum[i][c]);
      TROUPE_SETTLE(sum[i][c]);
    }
  }
}

template <std::size_t R, std::size_t P>
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
          hn::Add(sum[i][c], hn::LoadU(d, out + c * kLanes));
}

// Writes [R][P panels] of the output.
template <std::size_t R, std::size_t P>
HWY_NOINLINE void multiply_tile(const Tile& tile) {
  const Floats d;
  Vec sum[R][2 * P];
  start_sums<R, P>(tile, sum);
  const std::size_t stride = tile.in_stride, ahead_floats = tile.ahead_lines * kLineFloats;
  const float *rows[kBases<R>], *panels[P], *ahead = tile.ahead, *limit = ahead;
  TROUPE_UNROLL for (std::size_t b = 0; b < kBases<R>; ++b) rows[b] = tile.in + 3 * b * stride;
  TROUPE_UNROLL for (std::size_t p = 0; p < P; ++p) panels[p] = tile.weights + p * tile.panel_floats;
  std::size_t left = tile.columns;
  for (; left >= kRound; left -= kRound) {
    for (limit += ahead_floats; ahead < limit; ahead += kLineFloats) __builtin_prefetch(ahead, 0, 2);
    TROUPE_UNROLL for (std::size_t k = 0; k < kRound; ++k) add_column<R, P>(rows, stride, panels, k, sum);
    TROUPE_UNROLL for (std::size_t b = 0; b < kBases<R>; ++b) rows[b] += kRound;
    TROUPE_UNROLL for (std::size_t p = 0; p < P; ++p) panels[p] += kRound * kPanel;
  }
  for (std::size_t k = 0; k < left; ++k) add_column<R, P>(rows, stride, panels, k, sum);
  float* out = tile.out;
  TROUPE_UNROLL for (std::size_t i = 0; i < R; ++i, out += tile.out_stride)
      TROUPE_UNROLL for (std::size_t c = 0; c < 2 * P; ++c) hn::StoreU(sum[i][c], d, out + c * kLanes);
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
