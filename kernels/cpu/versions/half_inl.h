// Vectors of float32 from and to the 16-bit formats, included once per target. AVX2 and AVX-512
// have instructions for half precision; elsewhere it is integer arithmetic as in float_formats.h.
// (Highway has both conversions, but without hardware it turns infinity into 65536, and it
// truncates bfloat16 instead of rounding.)
#if defined(TROUPE_KERNELS_CPU_HALF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_HALF_INL_H
#undef TROUPE_KERNELS_CPU_HALF_INL_H
#else
#define TROUPE_KERNELS_CPU_HALF_INL_H
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/base/float_formats.h"
#include "kernels/base/number_formats.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr bool kConvertsHalf = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2;

// Stores the low 16 bits of every lane; all lanes are below 2^16.
template <class D, class U>
HWY_INLINE void store_low_halves(D, U bits, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), bits)), d16, to);
}

// Loads a vector of float32 from as many stored values.
template <KvFormat kFormat, class D>
HWY_INLINE hn::Vec<D> widen(D d, const std::uint16_t* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (kFormat == KvFormat::bf16) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, from))));
  } else if constexpr (kConvertsHalf) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    const auto stored = hn::PromoteTo(du, hn::LoadU(d16, from));
    const auto sign = hn::And(hn::ShiftLeft<16>(stored), hn::Set(du, 0x80000000u));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(stored, hn::Set(du, 0x7fffu)));
    const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
    const auto special = hn::Or(magnitude, hn::Set(du, 0x7f800000u));
    const auto is_special = hn::Gt(magnitude, hn::Set(du, 0x0f7fffffu));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
  }
}

// Stores a vector of float32, rounded.
template <KvFormat kFormat, class D>
HWY_INLINE void narrow(D d, hn::Vec<D> value, std::uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto one = hn::Set(du, 1);
  if constexpr (kFormat == KvFormat::bf16) {
    const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
    const auto nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    store_low_halves(d, hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), nan, rounded), to);
  } else if constexpr (kConvertsHalf) {
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), one);
    const auto rebiased = hn::Sub(magnitude, hn::Set(du, 112u << 23));
    auto result = hn::ShiftRight<13>(hn::Add(rebiased, hn::Add(odd, hn::Set(du, 0xfffu))));
    // Below 2^-14 results are multiples of 2^-24, the spacing of floats near 1/2.
    const auto half = hn::Set(d, 0.5f);
    const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::Abs(value), half)), hn::BitCast(du, half));
    result = hn::IfThenElse(hn::Gt(hn::Set(du, 0x38800000u), magnitude), small, result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefffu)), hn::Set(du, 0x7c00u), result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000u)), hn::Set(du, 0x7e00u), result);
    store_low_halves(d, hn::Or(sign, result), to);
  }
}

template <KvFormat kFormat>
HWY_INLINE void widen_row(const std::uint16_t* from, std::size_t count, float* to) {
  const hn::ScalableTag<float> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(widen<kFormat>(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = kFormat == KvFormat::f16 ? from_f16(from[i]) : from_bf16(from[i]);
}

// Rounds floats to bf16. `to` may be the memory of `from`: a number is written behind no unread one.
HWY_INLINE void narrow_row(const float* from, std::size_t count, std::uint16_t* to) {
  const hn::ScalableTag<float> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) narrow<KvFormat::bf16>(d, hn::LoadU(d, from + i), to + i);
  for (; i < count; ++i) {
    float value;
    std::memcpy(&value, from + i, sizeof(value));
    const std::uint16_t rounded = to_bf16(value);
    std::memcpy(to + i, &rounded, sizeof(rounded));
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
