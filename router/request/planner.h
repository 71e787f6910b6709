#pragma once
// Chooses the plan that is cheapest for what a node holds (docs/concepts/planner.md). BAT's rule
// asks which side is longer and how hot the user is. The planner asks what each plan would cost
// there now, and what it would leave for later requests.
//
//   cost(plan)  = predicted time of the remaining work there (plan_cost.h);
//                 a block that another node has counts as its transfer (held_blocks.h)
//   gain(plan)  = uses · max(0, least cost now − cost if what this plan keeps had been there)
//   chosen      = the plan with the smallest cost − gain; on a tie the first
//
// Where the request allows approximate plans, they are weighed like all others. They compute as
// many of their tokens as the request wants exact.
//
// Uses is how often such a request is expected again while the block lives. For a user's block the
// index gives it: how often such blocks returned within what the memory holds
// (placement/popularity/return_rate.h). For item blocks it is their earlier uses in the window, if
// pages are free. A block that some node already keeps gains nothing. The KV-cache worker decides
// what is evicted for a block: it keeps by use, not by kind, and evicts replicas first.
#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/base/check.h"

namespace troupe::router {

struct PlanWeight {
  double cost = 0;       // in any unit, the same for all
  double kept_cost = 0;  // cost if all its blocks had been there
  double uses = 0;       // expected uses of the blocks that no node keeps yet
};
// Returns the index of the chosen plan; requires at least one.
inline std::size_t weigh_plans(std::span<const PlanWeight> plans) {
  TROUPE_CHECK(!plans.empty(), "the planner has a plan to choose");
  const double least = std::ranges::min(plans, {}, &PlanWeight::cost).cost;
  std::size_t chosen = 0;
  double lowest = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const double net = plans[i].cost - plans[i].uses * std::max(0.0, least - plans[i].kept_cost);
    if (i > 0 && !(net < lowest)) continue;
    chosen = i;
    lowest = net;
  }
  return chosen;
}

}  // namespace troupe::router
