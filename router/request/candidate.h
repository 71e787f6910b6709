#pragma once
// A candidate is a plan by which a request could be answered, with the names under which its parts
// may be reused. A request has one for each plan that its policy considers. Names are computed
// once, when the candidate is built.
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct Candidate {
  std::string_view name;  // name in the table of plans (plans.h), or the request kind's name
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one per segment; blocks without an owner are shared by all
};

// Returns true if the index is asked for this block; shared blocks are assumed to be present.
inline bool is_asked_for(const SegmentBlock& block) { return block.name && !block.owner.empty(); }

// Returns true if the plan keeps named user tokens for later requests.
inline bool keeps_user(const Candidate& candidate) {
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i)
    if (candidate.plan.segments[i].kind == SegmentKind::user && candidate.blocks[i].name) return true;
  return false;
}

// Returns the tokens of the prompt, without the blocks that fill reused spans.
std::size_t prompt_tokens(const Plan& plan);
// Return the number and the share of the prompt's tokens that are approximate.
std::size_t approximate_tokens(const Plan& plan);
double approximate_share(const Plan& plan);

}  // namespace troupe::router
