#include "router/request/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace troupe::router {
namespace {

constexpr std::size_t item = 0, user = 1;  // in the planner's order

TEST_CASE("planner: the plan with less to compute is chosen, on a tie the first") {
  CHECK(weigh_plans(std::vector<PlanWeight>{{100}, {50}}) == user);
  CHECK(weigh_plans(std::vector<PlanWeight>{{20}, {50}}) == item);
  CHECK(weigh_plans(std::vector<PlanWeight>{{70}, {70}}) == item);
  CHECK(weigh_plans(std::vector<PlanWeight>{{70}}) == 0);
}

TEST_CASE("planner: a block is worth its cost now if it saves that often enough later") {
  // Now 500 with the items, which are held, and 600 with the user; later 100 instead of 500.
  const auto chosen = [](double uses) {
    return weigh_plans(std::vector<PlanWeight>{{500}, {.cost = 600, .user = {uses, 100}}});
  };
  CHECK(chosen(0) == item);
  CHECK(chosen(0.24) == item);
  CHECK(chosen(0.26) == user);
  // If the items are long and missing, they are kept instead.
  const auto kept = [](double items) {
    return weigh_plans(
        std::vector<PlanWeight>{{.cost = 1'100, .items = {items, 100}}, {.cost = 1'100, .user = {1, 1'000}}});
  };
  CHECK(kept(1) == item);
  CHECK(kept(0) == user);
}

TEST_CASE("planner: blocks of items that are wanted often make no user's block worth its cost") {
  // The second plan keeps both kinds. It costs 440 now, 120 once the user returns, 400 for other users.
  const auto chosen = [](double user_uses, double item_uses) {
    return weigh_plans(
        std::vector<PlanWeight>{{350}, {.cost = 440, .user = {user_uses, 120}, .items = {item_uses, 400}}});
  };
  CHECK(chosen(0.3, 20) == 0);
  CHECK(chosen(0.4, 20) == 1);
  CHECK(chosen(0.4, 0) == 1);
}

TEST_CASE("planner: no choice costs more than another would, less what it leaves") {
  std::mt19937_64 random(3);
  const auto draw = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  for (int i = 0; i < 500; ++i) {
    std::vector<PlanWeight> plans(2 + i % 3);
    for (PlanWeight& plan : plans) plan = {draw(1'000)};
    const double least = std::ranges::min(plans, {}, &PlanWeight::cost).cost;
    CHECK(plans[weigh_plans(plans)].cost == least);
    for (PlanWeight& plan : plans)
      plan.user = {draw(3), draw(plan.cost)}, plan.items = {draw(3), draw(plan.cost)};
    const auto net = [&](const PlanWeight& plan) {
      return plan.cost - plan.user.uses * std::max(0.0, least - plan.user.cost) -
             plan.items.uses * std::max(0.0, least - plan.items.cost);
    };
    const PlanWeight chosen = plans[weigh_plans(plans)];
    for (const PlanWeight& plan : plans) CHECK(net(chosen) <= net(plan));
  }
}

}  // namespace
}  // namespace troupe::router
