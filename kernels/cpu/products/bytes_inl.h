// Products of words of four bytes, unsigned by signed, that are added to int32 sums; included once per
// target. A vector of words is kept as a vector of floats, which has the same bits and the same
// broadcasts. The instructions of AVX512_VNNI and AVX_VNNI are written in assembly: their intrinsics would
// need another target attribute on every function from here up. A version that uses them must check that
// the CPU has them.
#if defined(TROUPE_KERNELS_CPU_BYTES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_BYTES_INL_H
#undef TROUPE_KERNELS_CPU_BYTES_INL_H
#else
#define TROUPE_KERNELS_CPU_BYTES_INL_H
#endif

#include "hwy/highway.h"

// True for targets with an exact product of bytes in three instructions, and for those whose passes also
// compile the versions with VNNI's one instruction.
#undef TROUPE_BYTE_TARGET
#undef TROUPE_VNNI_TARGET
#define TROUPE_BYTE_TARGET (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4)
#define TROUPE_VNNI_TARGET (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2)

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VNNI_TARGET

// Adds the four products of each word of `values` (unsigned) and `weights` (signed). Exact.
template <class V>
HWY_INLINE void add_byte_products_vnni(const V& values, const V& weights, V& sum) {
#if HWY_TARGET == HWY_AVX3
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(values.raw), "v"(weights.raw));
#else  // {vex} selects AVX_VNNI's encoding; braces alone are alternatives of dialects.
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(values.raw), "x"(weights.raw));
#endif
}

#endif  // TROUPE_VNNI_TARGET
#if TROUPE_BYTE_TARGET

// The same, without VNNI. Two products are summed in 16 bits, which is exact for weights of magnitude 64
// at most: 2 · 255 · 64 is below 2^15.
template <class V>
HWY_INLINE void add_byte_products(const V& values, const V& weights, V& sum) {
#if HWY_TARGET == HWY_AVX3
  const __m512i pairs =
      _mm512_maddubs_epi16(_mm512_castps_si512(values.raw), _mm512_castps_si512(weights.raw));
  const __m512i words = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  sum.raw = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sum.raw), words));
#elif HWY_TARGET == HWY_AVX2
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_castps_si256(values.raw), _mm256_castps_si256(weights.raw));
  const __m256i words = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sum.raw = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum.raw), words));
#else
  const __m128i pairs = _mm_maddubs_epi16(_mm_castps_si128(values.raw), _mm_castps_si128(weights.raw));
  const __m128i words = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
  sum.raw = _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(sum.raw), words));
#endif
}

#endif  // TROUPE_BYTE_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
