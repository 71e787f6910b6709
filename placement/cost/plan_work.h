#pragma once
// Computes the work of a plan from its segments: a computed segment costs by its tokens and by what
// they see, a reused one costs the reading of its keys and values. A beam search adds its own
// steps.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/base/plan.h"
#include "placement/cost/work.h"

namespace troupe::placement {

// Returns, for each segment, the number of tokens that it sees. A token that stands for another one
// and that other one count once. For an invalid plan the result covers what can be resolved.
std::vector<std::uint64_t> tokens_seen(const kernels::Plan& plan);

// Returns, for each segment, the number of tokens to compute if the segment is not reused. This is
// all tokens, with two exceptions: a repair's place (kernels/base/repair.h) counts its chosen
// tokens and, for the others, their share in the first of `layers` layers; a block of prototypes
// counts 0. layers = 0: the number is unknown, and the first layers are not counted.
std::vector<std::uint64_t> tokens_computed(const kernels::Plan& plan, std::uint32_t layers);

// Returns the number of tokens whose keys and values come from prototypes (kernels/decoder/prototypes.h):
// their rows are found, read and written into pages before the pass reads these.
std::uint64_t prototype_tokens(const kernels::Plan& plan);

// Returns the number of tokens of a search's paths. If only an index knows the paths, assumes the
// usual length of semantic identifiers.
std::uint64_t search_steps(const kernels::Search& search);
// Counts what a plan's search computes beside its segments: at every step but the first, the newest
// token of each kept path, which sees the prompt and its own path. A search of items computes no tokens.
Pass search_pass(const kernels::Plan& plan, const std::vector<std::uint64_t>& seen);

// Counts the plan's pass, given which segments are reused.
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
