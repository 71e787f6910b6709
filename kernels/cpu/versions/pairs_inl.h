// Pairs of bf16 numbers in words of 32 bits, the operands of AVX512_BF16; included once per target.
// A vector of words is kept as a vector of floats, which has the same bits and the same broadcasts.
// The instructions are written in assembly: their intrinsics would need another target attribute on
// every function from here up. A version that uses them must check that the CPU has them.
#if defined(TROUPE_KERNELS_CPU_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PAIRS_INL_H
#undef TROUPE_KERNELS_CPU_PAIRS_INL_H
#else
#define TROUPE_KERNELS_CPU_PAIRS_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

// True for the target whose passes also compile the versions with AVX512_BF16's instructions.
#undef TROUPE_PAIR_TARGET
#define TROUPE_PAIR_TARGET (HWY_TARGET == HWY_AVX3)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_PAIR_TARGET

namespace hn = hwy::HWY_NAMESPACE;

// Adds both products of each pair to the sum. Numbers below 2^-126 count as 0.
template <class V>
HWY_INLINE void add_pair_products(const V& values, const V& weights, V& sum) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(values.raw));
}

// Rounds to bf16, to nearest, ties to even: the 16 numbers of `first`, then those of `second`.
// Numbers below 2^-126 become 0; NaN stays NaN.
HWY_INLINE __m512i round_to_bf16(__m512 first, __m512 second) {
  __m512i rounded;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(rounded) : "v"(second), "v"(first));
  return rounded;
}

// Returns words of one number each of `first` (the lower half) and of `second`.
HWY_INLINE __m512i interleave_halves(__m256i first, __m256i second) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

// Returns the numbers of the lower or upper half of a vector of bf16 numbers.
HWY_INLINE __m512 widen_lower(__m512i rounded) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(rounded)), 16));
}
HWY_INLINE __m512 widen_upper(__m512i rounded) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(rounded, 1)), 16));
}

// Rounds `count` floats to bf16 in place, as floats; a multiple of 16.
inline HWY_NOINLINE void round_floats(float* numbers, std::size_t count) {
  for (float* const end = numbers + count; numbers < end; numbers += 16) {
    const __m512 here = _mm512_loadu_ps(numbers);
    _mm512_storeu_ps(numbers, widen_lower(round_to_bf16(here, here)));
  }
}

// Rounds `columns` floats to bf16: [(columns + 1) / 2] words; a missing last number is 0.
inline HWY_NOINLINE void round_to_pairs(const float* in, std::size_t columns, float* out) {
  std::size_t column = 0;
  for (; column + 32 <= columns; column += 32)
    _mm512_storeu_si512(out + column / 2,
                        round_to_bf16(_mm512_loadu_ps(in + column), _mm512_loadu_ps(in + column + 16)));
  if (column == columns) return;
  const std::uint32_t used = (1u << (columns - column)) - 1;
  const __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(used), in + column);
  const __m512 second = _mm512_maskz_loadu_ps(static_cast<__mmask16>(used >> 16), in + column + 16);
  const std::size_t words = (columns - column + 1) / 2;
  _mm512_mask_storeu_epi32(out + column / 2, static_cast<__mmask16>((1u << words) - 1),
                           round_to_bf16(first, second));
}

#endif  // TROUPE_PAIR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
