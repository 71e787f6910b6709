#pragma once
// A plan by which a request could be answered, with the name of each segment's block. Blocks (the
// stored keys and values of segments) are found and reused under these names. Such a plan is called
// a candidate; the word also means an item to be ranked, but not here. A request has one for each
// plan that its policy considers, and the router chooses the cheapest.
#include <cstddef>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

struct Candidate {
  std::string_view name;  // name in the table of plans (plans.h), or the request kind's name
  Plan plan;
  std::vector<SegmentBlock> blocks;  // one per segment; without an owner: the system prompt's block
  // Indices of the items that are computed in their place, where the plan reuses the blocks of the others.
  std::vector<std::uint32_t> in_place = {};
  // Tokens of the prompt whose keys and values are, by plan and repair, not those of the plain computation
  // of its arrangement; 0 = the answer is exact.
  std::size_t approximate = 0;
};

// Returns true if the index (cache-meta) is asked which nodes have this block. It is not asked for
// blocks without an owner: they belong to no user or item and are assumed to be on every node.
inline bool is_asked_for(const SegmentBlock& block) { return block.name && !block.owner.empty(); }

// Returns true if the plan keeps a block of the user's history for later requests.
inline bool keeps_user(const Candidate& candidate) {
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i)
    if (candidate.plan.segments[i].kind == SegmentKind::user && candidate.blocks[i].name) return true;
  return false;
}

// Returns the number of tokens of the prompt. Blocks that only serve as the source of reused spans
// do not count.
std::size_t prompt_tokens(const Plan& plan);
// Returns the number of tokens of reused spans that keep the keys and values of their blocks, because
// the repair does not choose them.
std::size_t kept_tokens(const Plan& plan);
// Returns the share of the prompt's tokens that are approximate.
double approximate_share(const Candidate& candidate);

}  // namespace troupe::router
