#include "router/request/planner.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace troupe::router {

std::size_t weigh_plans(std::span<const PlanWeight> plans) {
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
