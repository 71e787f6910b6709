#include "placement/cost/plan_work.h"

#include <algorithm>

namespace troupe::placement {

// Whoever sees tokens that replace others sees those others, too: the former add nothing.
std::vector<std::uint64_t> tokens_seen(const kernels::Plan& plan) {
  std::vector<std::uint64_t> seen(plan.segments.size()), before(plan.segments.size() + 1);
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const kernels::Segment& segment = plan.segments[i];
    for (const kernels::Sees::Range range : segment.sees.ranges()) {
      const std::size_t end = std::min<std::size_t>(range.end, i),
                        begin = std::min<std::size_t>(range.begin, end);
      seen[i] += before[end] - before[begin];
    }
    const bool replaces = segment.replaces.segment != kernels::Replaced::none;
    before[i + 1] = before[i] + (replaces ? 0 : segment.tokens.size());
  }
  return seen;
}

}  // namespace troupe::placement
