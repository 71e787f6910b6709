// Dot products of a few states with a few rows of a matrix, with all sums in registers, included once per
// target. The last columns of a row are loaded apart, so nothing behind it is read.
#if defined(TROUPE_KERNELS_CPU_DOTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_DOTS_INL_H
#undef TROUPE_KERNELS_CPU_DOTS_INL_H
#else
#define TROUPE_KERNELS_CPU_DOTS_INL_H
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#undef TROUPE_UNROLL
#define TROUPE_UNROLL HWY_UNROLL(8)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;
using DotTag = hn::ScalableTag<float>;
using DotVec = hn::Vec<DotTag>;
inline constexpr std::size_t kDotLanes = hn::MaxLanes(DotTag());
inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;  // 32, else 16

// Loads the first `count` floats, followed by zeros, and reads no others.
HWY_INLINE DotVec load_dot_columns(const float* from, std::size_t count) {
  const DotTag d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2  // elsewhere a masked load may fault
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float lanes[kDotLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(d, lanes);
#endif
}

// Calls take(s, r, states[s] · rows[r]) for S states and R rows.
template <std::size_t S, std::size_t R, class Take>
HWY_INLINE void dot_rows(const float* const* states, const float* const* rows, std::size_t columns,
                         const Take& take) {
  const DotTag d;
  DotVec sum[S][R];
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r)
      sum[s][r] = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kDotLanes <= columns; c += kDotLanes) {
    DotVec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] = hn::LoadU(d, rows[r] + c);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const DotVec state = hn::LoadU(d, states[s] + c);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(state, row[r], sum[s][r]);
    }
  }
  if (const std::size_t left = columns - c) {
    DotVec row[R];
    TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) row[r] = load_dot_columns(rows[r] + c, left);
    TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const DotVec state = load_dot_columns(states[s] + c, left);
      TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r) sum[s][r] = hn::MulAdd(state, row[r], sum[s][r]);
    }
  }
  TROUPE_UNROLL for (std::size_t s = 0; s < S; ++s) TROUPE_UNROLL for (std::size_t r = 0; r < R; ++r)
      take(s, r, hn::GetLane(hn::SumOfLanes(d, sum[s][r])));
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
