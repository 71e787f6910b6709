#pragma once
// What the segments of a plan come to in Work: a segment that is computed costs by its tokens and by what
// they see, one that is reused costs the reading of its keys and values; and what a beam search behind it
// adds.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/base/plan.h"
#include "placement/cost/work.h"

namespace troupe::placement {

// Of each segment, the tokens of those that it sees: of tokens that stand in another's place and those, one
// each. A plan that is not sound has whatever can be seen of it.
std::vector<std::uint64_t> tokens_seen(const kernels::Plan& plan);

// Of each segment, the tokens that are computed where it is not reused: all, but of a place of a repair its
// part of those that are chosen (kernels/base/repair.h), and none of a block of prototypes; and of the others
// the first layers' part of a model of so many; 0: it is not known of how many, and those layers are not
// counted.
std::vector<std::uint64_t> tokens_computed(const kernels::Plan& plan, std::uint32_t layers);

// Tokens of a search's paths; where only an index of paths knows, as many as semantic identifiers mostly
// have.
std::uint64_t search_steps(const kernels::Search& search);
// What a plan's search computes beside its segments: at every step but the first the newest token of each
// kept path, which sees the prompt and its own path.
Pass search_pass(const kernels::Plan& plan, const std::vector<std::uint64_t>& seen);

// Counted, given which segments are reused.
template <class IsReused>
Pass pass_of(const kernels::Plan& plan, const IsReused& is_reused, std::uint32_t layers = 0) {
  Pass pass{.readouts = plan.readouts.size()};
  const std::vector<std::uint64_t> seen = tokens_seen(plan), computed = tokens_computed(plan, layers);
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const std::uint64_t all = plan.segments[i].tokens.size(), tokens = computed[i];
    if (is_reused(i)) {
      pass.reused_tokens += all;
    } else {
      pass.reused_tokens += all - tokens;
      pass.new_tokens += tokens;
      pass.pairs += tokens * seen[i] + tokens * (tokens + 1) / 2;
    }
  }
  if (plan.search.width > 0) pass += search_pass(plan, seen);
  return pass;
}

}  // namespace troupe::placement
