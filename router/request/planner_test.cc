#include "router/request/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe::router {
namespace {

constexpr std::size_t item = 0, user = 1;  // in the planner's order

TEST_CASE("planner: the plan with less to compute is chosen, on a tie the first") {
  CHECK(weigh_plans(std::vector<PlanWeight>{{100, 100}, {50, 50}}) == user);
  CHECK(weigh_plans(std::vector<PlanWeight>{{20, 20}, {50, 50}}) == item);
  CHECK(weigh_plans(std::vector<PlanWeight>{{70, 20}, {70, 50}}) == item);
  CHECK(weigh_plans(std::vector<PlanWeight>{{70, 20}}) == 0);
}

TEST_CASE("planner: a block is worth its cost now if it saves that often enough later") {
  // Now 500 with the items, which are held, and 600 with the user; later 100 instead of 500.
  const auto chosen = [](double uses) {
    return weigh_plans(std::vector<PlanWeight>{{500, 500}, {600, 100, uses}});
  };
  CHECK(chosen(0) == item);
  CHECK(chosen(0.24) == item);
  CHECK(chosen(0.26) == user);
  // If the items are long and missing, they are kept instead.
  CHECK(weigh_plans(std::vector<PlanWeight>{{1'100, 100, 1}, {1'100, 1'000, 1}}) == item);
  CHECK(weigh_plans(std::vector<PlanWeight>{{1'100, 100, 0}, {1'100, 1'000, 1}}) == user);
}

TEST_CASE("planner: no choice costs more than another would, less what it leaves") {
  std::mt19937_64 random(3);
  const auto draw = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  for (int i = 0; i < 500; ++i) {
    std::vector<PlanWeight> plans(2 + i % 3);
    for (PlanWeight& plan : plans) plan = {draw(1'000), 0, 0};
    const double least = std::ranges::min(plans, {}, &PlanWeight::cost).cost;
    CHECK(plans[weigh_plans(plans)].cost == least);
    for (PlanWeight& plan : plans) plan.kept_cost = draw(plan.cost), plan.uses = draw(3);
    const auto net = [&](const PlanWeight& plan) {
      return plan.cost - plan.uses * std::max(0.0, least - plan.kept_cost);
    };
    const PlanWeight chosen = plans[weigh_plans(plans)];
    for (const PlanWeight& plan : plans) CHECK(net(chosen) <= net(plan));
  }
}

}  // namespace
}  // namespace troupe::router
