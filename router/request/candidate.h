#pragma once
// A plan by which a request could be answered, with the names under which parts of it may be reused. A
// request has one for each plan that its policy considers; names are computed when it is made, and never
// again.
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct Candidate {
  std::string_view name;  // in the table of plans (plans.h), or of the request's kind
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one for each segment; those without an owner are everybody's
};

// Whether the index is asked for it: what is everybody's is taken to be there.
inline bool is_asked_for(const SegmentBlock& block) { return block.name && !block.owner.empty(); }

// Whether a user's tokens, of which there is a name, are kept for requests to come.
inline bool keeps_user(const Candidate& candidate) {
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i)
    if (candidate.plan.segments[i].kind == SegmentKind::user && candidate.blocks[i].name) return true;
  return false;
}

// Tokens of the prompt: blocks that have their places in it are no part of it.
std::size_t prompt_tokens(const Plan& plan);
// Those that are approximate, and their share.
std::size_t approximate_tokens(const Plan& plan);
double approximate_share(const Plan& plan);

}  // namespace troupe::router
