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

std::vector<std::uint64_t> tokens_computed(const kernels::Plan& plan) {
  std::vector<std::uint64_t> computed;
  for (const kernels::Segment& segment : plan.segments) computed.push_back(segment.tokens.size());
  std::uint64_t all = 0, chosen = plan.repair.always.size();
  for (const std::uint32_t budget : plan.repair.budgets) chosen += budget;
  for (const kernels::Repair::Place& place : plan.repair.places)
    if (place.segment < computed.size()) all += computed[place.segment];
  for (const kernels::Repair::Place& place : plan.repair.places)
    if (place.segment < computed.size() && chosen < all)
      computed[place.segment] = (computed[place.segment] * chosen + all / 2) / all;
  return computed;
}

std::uint64_t search_steps(const kernels::Search& search) {
  constexpr std::uint64_t usual = 3;
  std::uint64_t longest = search.steps;
  for (const kernels::Tokens& path : search.allowed) longest = std::max<std::uint64_t>(longest, path.size());
  return longest > 0 ? longest : usual;
}

Pass search_pass(const kernels::Plan& plan, const std::vector<std::uint64_t>& seen) {
  const kernels::Search& search = plan.search;
  if (search.segment >= plan.segments.size()) return {};
  const std::uint64_t prompt = seen[search.segment] + plan.segments[search.segment].tokens.size();
  const std::uint64_t later = search_steps(search) - 1, rows = later * search.width;
  return {.new_tokens = rows,
          .pairs = rows * prompt + search.width * later * (later + 1) / 2,
          .readouts = 1 + rows};
}

}  // namespace troupe::placement
