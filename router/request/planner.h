#pragma once
// Chooses the plan that is cheapest for what a node holds (docs/concepts/planner.md). BAT's rule
// asks which side is longer and how hot the user is. The planner asks what each plan would cost
// there now, and what it would leave for later requests.
//
//   cost(plan)    = predicted time of the remaining work there (plan_cost.h);
//                   a block that another node has counts as its transfer (held_blocks.h)
//   gain(blocks)  = uses · max(0, least cost now − cost if these blocks had been there)
//   chosen        = the plan with the smallest cost − gain(user's blocks) − gain(items' blocks);
//                   on a tie the first
//
// If a plan keeps both kinds of blocks, each kind gains by itself, and the other one counts as it is now.
// Other users want the items' blocks again, without having this user's block. The user wants theirs again
// with other items. With one mean number of uses for both, a user's block would seem to return as often as
// the items' blocks.
//
// Where the request allows approximate plans, they are weighed like all others. They compute as
// many of their tokens as the request wants exact.
//
// Uses is how often such a block is expected to be wanted again while it lives. For a user's block the
// index gives it: how often such blocks returned within what the memory holds
// (placement/popularity/return_rate.h). For item blocks it is their earlier uses in the window, if
// pages are free. A block that some node already keeps gains nothing. The KV-cache worker decides
// what is evicted for a block: it keeps by use, not by kind, and evicts replicas first.
#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/base/check.h"

namespace troupe::router {

// Blocks of one kind that a plan leaves for later requests.
struct KeptBlocks {
  double uses = 0;  // expected uses of those that no node keeps yet
  double cost = 0;  // of the plan if all of this kind had been there
};
struct PlanWeight {
  double cost = 0;  // in any unit, the same for all
  KeptBlocks user = {}, items = {};
};
inline double gain(const KeptBlocks& kept, double least) {
  return kept.uses * std::max(0.0, least - kept.cost);
}
// Returns the index of the chosen plan; requires at least one.
inline std::size_t weigh_plans(std::span<const PlanWeight> plans) {
  TROUPE_CHECK(!plans.empty(), "the planner has a plan to choose");
  const double least = std::ranges::min(plans, {}, &PlanWeight::cost).cost;
  std::size_t chosen = 0;
  double lowest = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double net = plans[i].cost - gain(plans[i].user, least) - gain(plans[i].items, least);
    if (i > 0 && !(net < lowest)) continue;
    chosen = i;
    lowest = net;
  }
  return chosen;
}

}  // namespace troupe::router
