// Vector versions of rounding to 16-bit formats: whole vectors, and the last few values of a row one by one.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/narrow.cc"
#include "hwy/foreach_target.h"

#include "kernels/cpu/versions/half_inl.h"
#include "kernels/operations/narrow.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

template <KvFormat kFormat>
void narrow_rows(const float* in, std::size_t stride, std::uint16_t* to, std::size_t rows,
                 std::size_t width) {
  const hn::ScalableTag<float> d;
  constexpr std::size_t lanes = hn::MaxLanes(d);
  for (std::size_t r = 0; r < rows; ++r, in += stride, to += width) {
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes) narrow<kFormat>(d, hn::LoadU(d, in + i), to + i);
    for (; i < width; ++i) to[i] = kFormat == KvFormat::f16 ? to_f16(in[i]) : to_bf16(in[i]);
  }
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {
namespace {

template <std::uint16_t (*kRound)(float)>
void narrow_reference(const float* in, std::size_t stride, std::uint16_t* to, std::size_t rows,
                      std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; ++i) to[r * width + i] = kRound(in[r * stride + i]);
}

}  // namespace

std::span<const NarrowVersion> narrow_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) \
  {name, &space::narrow_rows<KvFormat::f16>, &space::narrow_rows<KvFormat::bf16>, (here & (target)) != 0},
  static const NarrowVersion versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", &narrow_reference<to_f16>, &narrow_reference<to_bf16>, true}};
#undef TROUPE_ENTRY
  return versions;
}

const NarrowVersion& narrowing() {
  static const NarrowVersion& chosen = first_usable(narrow_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
