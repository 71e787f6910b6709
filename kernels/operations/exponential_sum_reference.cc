// Sums the exponentials of logits in double, in the plainest way; faster versions are tested
// against it.
#include <algorithm>

#include "kernels/operations/exponential_sum.h"

namespace troupe::kernels {

ExponentialSum sum_exponentials_reference(const float* logits, std::size_t count) {
  if (count == 0) return {};
  const std::span<const float> all(logits, count);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (!std::ranges::all_of(all, [](float logit) { return std::isfinite(logit); })) return {nan, nan};
  const float largest = std::ranges::max(all);
  double sum = 0;
  for (const float logit : all) sum += std::exp(double{logit} - double{largest});
  return {largest, static_cast<float>(sum)};
}

}  // namespace troupe::kernels
