// Adds up the work of a plan (operations and bytes) from its computed and reused segments, so that
// plans can be compared before one runs.
#include "placement/cost/plan_work.h"

#include <algorithm>

namespace troupe::placement {

// A segment that sees tokens which replace others also sees those others; the replacing tokens add
// nothing.
std::vector<std::uint64_t> tokens_seen(const kernels::Plan& plan) {
  std::vector<std::uint64_t> seen(plan.segments.size()), before(plan.segments.size() + 1);
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const kernels::Segment& segment = plan.segments[i];
    for (const kernels::VisibleSegments::Range range : segment.sees.ranges()) {
      const std::size_t end = std::min<std::size_t>(range.end, i),
                        begin = std::min<std::size_t>(range.begin, end);
      seen[i] += before[end] - before[begin];
    }
    const bool replaces = segment.replaces.segment != kernels::ReplacedTokens::none;
    before[i + 1] = before[i] + (replaces ? 0 : segment.tokens.size());
  }
  return seen;
}

namespace {

// Returns the work of a token that is not chosen, as a share of a full token's work: the exact
// layers except the last, and the last one's keys and values, about a quarter of a layer. Choosing
// by attention needs the first layer; choosing by divergence needs the second layer's keys and
// values.
double share_of_others(const kernels::Repair& repair, std::uint32_t layers) {
  if (layers == 0) return 0;
  double whole = repair.exact_layers - 0.75;
  if (repair.attention > 0) whole = std::max(whole, 0.5);
  if (repair.divergence > 0) whole = std::max(whole, 1.25);
  return std::min(1.0, whole / layers);
}

}  // namespace

std::vector<std::uint64_t> tokens_computed(const kernels::Plan& plan, std::uint32_t layers) {
  const kernels::Repair& repair = plan.repair;
  std::vector<std::uint64_t> computed;
  for (const kernels::Segment& segment : plan.segments) computed.push_back(segment.tokens.size());
  struct Budget {
    double tokens = 0, chosen = 0;
  };
  std::vector<Budget> budgets(repair.budgets.size());
  for (std::size_t b = 0; b < budgets.size(); ++b) budgets[b].chosen = repair.budgets[b];
  std::uint64_t number = 0;
  auto always = repair.always.begin();
  for (const kernels::Repair::ReusedSpan& place : repair.reused_spans) {
    // Invalid plan: count all tokens.
    if (place.segment >= computed.size() || place.budget >= budgets.size()) return computed;
    Budget& budget = budgets[place.budget];
    budget.tokens += static_cast<double>(computed[place.segment]);
    number += computed[place.segment];
    for (; always != repair.always.end() && *always < number; ++always) ++budget.chosen;
  }
  const double others = share_of_others(repair, layers);
  for (const kernels::Repair::ReusedSpan& place : repair.reused_spans) {
    const Budget& budget = budgets[place.budget];
    const double chosen = std::min(1.0, budget.chosen / std::max(1.0, budget.tokens));
    // The block is read, not computed.
    if (place.of_prototypes && place.block < computed.size()) computed[place.block] = 0;
    computed[place.segment] = static_cast<std::uint64_t>(
        static_cast<double>(computed[place.segment]) * (chosen + (1 - chosen) * others) + 0.5);
  }
  return computed;
}

std::uint64_t prototype_tokens(const kernels::Plan& plan) {
  std::uint64_t tokens = 0;
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans)
    if (place.of_prototypes && place.block < plan.segments.size())
      tokens += plan.segments[place.block].tokens.size();
  return tokens;
}

std::uint64_t search_steps(const kernels::Search& search) {
  constexpr std::uint64_t usual = 3;
  std::uint64_t longest = search.steps;
  for (const kernels::Tokens& path : search.allowed) longest = std::max<std::uint64_t>(longest, path.size());
  return longest > 0 ? longest : usual;
}

Pass search_pass(const kernels::Plan& plan, const std::vector<std::uint64_t>& seen) {
  const kernels::Search& search = plan.search;
  if (search.of_items) return {.scans = 1};
  if (search.segment >= plan.segments.size()) return {};
  const std::uint64_t prompt = seen[search.segment] + plan.segments[search.segment].tokens.size();
  const std::uint64_t later = search_steps(search) - 1, rows = later * search.width;
  return {.new_tokens = rows,
          .pairs = rows * prompt + search.width * later * (later + 1) / 2,
          .readouts = 1 + rows};
}

}  // namespace troupe::placement
