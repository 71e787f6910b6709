// Shared parts of the policies that split the pool between its areas: the state and the reward they
// learn from, and the shares of all areas that follow from alpha (the rows' share).
#include "placement/split/split_policy.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::placement {

std::array<double, state_values> values_of(const SplitState& s) {
  return {s.hot_share, s.kv_hits, s.row_hits, s.length, s.violations, s.alpha, s.p99};
}

double split_reward(double violations, double p99_over_objective) {
  return 2 - violations - p99_over_objective;
}

double clip_alpha(double alpha) { return std::clamp(alpha, alpha_min, alpha_max); }

void AlphaPolicy::decide(const SplitView& view, std::span<double> shares) {
  TROUPE_CHECK(!shares.empty(), "there is at least one area");
  const double alpha = std::clamp(next_alpha(view), 0.0, 1.0);
  const std::span<double> others = shares.subspan(1);
  const double before = std::accumulate(others.begin(), others.end(), 0.0);
  for (double& share : others)
    share = before > 0 ? share / before * (1 - alpha) : (1 - alpha) / static_cast<double>(others.size());
  shares[0] = others.empty() ? 1 : alpha;
}

}  // namespace troupe::placement
