// Exponentials in float32 for the vector kernels, included once per target (Highway's toggle instead of a
// pragma). Both split off an integer power of two, which goes into the exponent bits of a polynomial in the
// rest; the polynomials are minimax fits of the relative error.
#if defined(TROUPE_KERNELS_CPU_EXPONENTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_EXPONENTIAL_INL_H
#undef TROUPE_KERNELS_CPU_EXPONENTIAL_INL_H
#else
#define TROUPE_KERNELS_CPU_EXPONENTIAL_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Adding this rounds a float in [-126, 127] to an integer n and leaves n + 127, the exponent of 2^n, in the
// low bits of the sum.
inline constexpr float kRoundingShift = 12582912.0f + 127;  // 1.5 * 2^23 + 127

// value * 2^n where `shifted` is n + kRoundingShift. A product, since adding to the exponent's bits
// would turn some NaNs into numbers.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V scale_by_power(D d, V value, V shifted) {
  const hn::RebindToSigned<D> di;
  return hn::Mul(value, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// 2^x for x <= 126, relative error below 3e-7. Anything under 2^-125 becomes about that, so that no
// result is subnormal; NaN stays NaN. 8 operations on AVX-512, which splits and scales floats
// itself, else 11.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_fast(D d, V x) {
  const V least = hn::Set(d, -125.0f);
#if HWY_TARGET == HWY_AVX3
  const V rest{_mm512_reduce_ps(x.raw, 1)};  // x - floor(x); NaN enters here
  V p = hn::Set(d, 1.87757669e-3f);
  p = hn::MulAdd(p, rest, hn::Set(d, 8.98933969e-3f));
  p = hn::MulAdd(p, rest, hn::Set(d, 5.58263175e-2f));
  p = hn::MulAdd(p, rest, hn::Set(d, 2.40153611e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 6.93153083e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 9.99999940e-1f));
  return V{_mm512_scalef_ps(p.raw, hn::Max(x, least).raw)};  // p * 2^floor(x)
#else
  x = hn::Max(least, x);  // the order matters: of a NaN and a number x86 takes the second
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::Add(x, shift);
  const V rest = hn::Sub(x, hn::Sub(shifted, shift));  // exact: in [-0.5, 0.5]
  V p = hn::Set(d, 1.32764725e-3f);
  p = hn::MulAdd(p, rest, hn::Set(d, 9.67554096e-3f));
  p = hn::MulAdd(p, rest, hn::Set(d, 5.55071309e-2f));
  p = hn::MulAdd(p, rest, hn::Set(d, 2.40221202e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 6.93146944e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 1.00000012f));
  return scale_by_power(d, p, shifted);
#endif
}

// e^x for x in [-87, 88], relative error below 2.5e-7: ln 2 in two parts keeps the rest exact for large x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_accurate(D d, V x) {
  const V shift = hn::Set(d, kRoundingShift);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), shift);
  const V n = hn::Sub(shifted, shift);
  V rest = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);  // the constant has 9 bits: n times it is exact
  rest = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), rest);
  V p = hn::Set(d, 1.40612677e-3f);
  p = hn::MulAdd(p, rest, hn::Set(d, 8.37901887e-3f));
  p = hn::MulAdd(p, rest, hn::Set(d, 4.16647755e-2f));
  p = hn::MulAdd(p, rest, hn::Set(d, 1.66663647e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 5.00000060e-1f));
  p = hn::MulAdd(p, rest, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, rest, hn::Set(d, 1.0f));
  return scale_by_power(d, p, shifted);
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
