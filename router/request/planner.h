#pragma once
// The planner of segments.md: which candidate, given what a node holds. BAT's rule asks which side is longer
// and how hot the user is; the planner asks what each plan would cost there now, and what it would leave
// behind for later requests.
//
//   cost(plan)  = predicted time of what is left to do there (plan_cost.h); a block that another node has
//   counts
//                 as its transfer does (held_blocks.h)
//   gain(plan)  = uses · max(0, least cost now − cost if what this plan keeps had been there)
//   chosen      = the plan with the smallest cost − gain; on a tie the first
//
// Approximate plans are weighed like all others, where the request allows any, with as many of their tokens
// computed as it wants exact.
//
// Uses are how often such a request is expected again while the block lives: for a user's block as the index
// saw such blocks wanted again within what the memory holds (placement/popularity/return_rate.h); for item
// blocks their earlier uses in the window if there is room. A block that is kept somewhere already gains
// nothing. What has to go for a block is the KV-cache worker's to say: it keeps by use, not by kind, and
// copies of what other nodes have go sooner.
#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/base/check.h"

namespace troupe::router {

struct PlanWeight {
  double cost = 0;       // in any unit, the same for all
  double kept_cost = 0;  // if all its blocks had been there
  double uses = 0;       // expected of those that are kept nowhere yet
};
// The index of the chosen one, of at least one.
inline std::size_t weigh_plans(std::span<const PlanWeight> plans) {
  TROUPE_CHECK(!plans.empty(), "there is a plan to choose");
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
