// Vector versions of the sum of exponentials: one pass for the largest logit, one for the sum, over
// logits in the first-level cache. Operations: about 14 per logit.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/versions/exponential_sum.cc"
#include "hwy/foreach_target.h"

#include <algorithm>

#include "kernels/cpu/versions/exponential_inl.h"
#include "kernels/operations/exponential_sum.h"
#include "kernels/operations/versions.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

using Floats = hn::ScalableTag<float>;
using Vec = hn::Vec<Floats>;

ExponentialSum sum_exponentials(const float* logits, std::size_t count) {
  constexpr std::size_t kLanes = hn::MaxLanes(Floats());
  constexpr float kLog2E = 1.44269504f;
  if (count == 0) return {};
  const Floats d;
  const std::size_t whole = count / kLanes * kLanes;
  HWY_ALIGN float rest[kLanes];  // the last few logits, padded with the first one
  std::fill(rest, rest + kLanes, logits[0]);
  std::copy(logits + whole, logits + count, rest);

  Vec most = hn::Load(d, rest), zeros = hn::Mul(most, hn::Zero(d));  // NaN where a logit is not finite
  for (std::size_t i = 0; i < whole; i += kLanes) {
    const Vec x = hn::LoadU(d, logits + i);
    most = hn::Max(most, x);
    zeros = hn::MulAdd(x, hn::Zero(d), zeros);
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(d, most));

  const Vec factor = hn::Set(d, kLog2E), above = hn::Set(d, largest);
  Vec sum = zeros;
  for (std::size_t i = 0; i < whole; i += kLanes)
    sum = hn::Add(sum, exp2_fast(d, hn::Mul(hn::Sub(hn::LoadU(d, logits + i), above), factor)));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  hn::Store(exp2_fast(d, hn::Mul(hn::Sub(hn::Load(d, rest), above), factor)), d, rest);
  for (std::size_t i = whole; i < count; ++i) total += rest[i - whole];
  return {largest, total};
}

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const SumExponentialsVersion> sum_exponentials_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_ENTRY(name, space, target) {name, &space::sum_exponentials, (here & (target)) != 0},
  static const SumExponentialsVersion versions[] = {
      TROUPE_TARGETS(TROUPE_ENTRY){"reference", &sum_exponentials_reference, true}};
#undef TROUPE_ENTRY
  return versions;
}

ExponentialSum sum_exponentials(const float* logits, std::size_t count) {
  static SumExponentials* const chosen = first_usable(sum_exponentials_versions()).run;
  return chosen(logits, count);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
