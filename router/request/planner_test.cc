#include "router/request/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace troupe::router {
namespace {

constexpr double per_pair = 1.0 / 1000;

PromptSizes sizes_of(double user, std::size_t items, double item_tokens) {
  return {4, user, std::vector<double>(items, item_tokens)};
}
MissingShares items_missing(const PromptSizes& sizes, double share, double user = 1) {
  return {user, std::vector<double>(sizes.items.size(), share)};
}

TEST_CASE("without reuse both prefixes cost the same") {
  const PromptSizes sizes = sizes_of(100, 10, 5);
  const double tokens = 100 + 10 * 5;
  const double pairs = 100 * (4 + 100 / 2.0) + 10 * 5 * (4 + 5 / 2.0) + 100 * 50;  // own ones, and of both
  CHECK(plan_cost(Prefix::user, sizes, {}, 0) == tokens);
  CHECK(plan_cost(Prefix::item, sizes, {}, 0) == tokens);
  CHECK(plan_cost(Prefix::none, sizes, {}, 0) == tokens);
  CHECK(plan_cost(Prefix::user, sizes, {}, per_pair) == doctest::Approx(tokens + pairs * per_pair));
  CHECK(plan_cost(Prefix::item, sizes, {}, per_pair) == doctest::Approx(tokens + pairs * per_pair));
}

TEST_CASE("what is there costs nothing, what is elsewhere its share") {
  const PromptSizes sizes = sizes_of(100, 10, 5);
  CHECK(plan_cost(Prefix::user, sizes, {0, {}}, 0) == 50);
  CHECK(plan_cost(Prefix::user, sizes, {0.25, {}}, 0) == 75);
  CHECK(plan_cost(Prefix::none, sizes, {0, {}}, 0) == 150);
  CHECK(plan_cost(Prefix::item, sizes, {0, {}}, 0) == 150);  // a user's block fits the other plan only
  CHECK(plan_cost(Prefix::item, sizes, items_missing(sizes, 0), 0) == 100);
  CHECK(plan_cost(Prefix::item, sizes, items_missing(sizes, 0.25), 0) == 112.5);
}

TEST_CASE("the prefix that leaves less to compute is chosen, whichever side is longer") {
  const PromptSizes long_user = sizes_of(500, 10, 5), short_user = sizes_of(20, 10, 5);
  for (const PromptSizes& sizes : {long_user, short_user}) {
    CHECK(weigh_plans(sizes, items_missing(sizes, 1, 0), {}, per_pair).prefix == Prefix::user);
    CHECK(weigh_plans(sizes, items_missing(sizes, 0, 1), {}, per_pair).prefix == Prefix::item);
  }
  CHECK(weigh_plans(long_user, items_missing(long_user, 0, 0), {}, 0).prefix == Prefix::user);
  CHECK(weigh_plans(short_user, items_missing(short_user, 0, 0), {}, 0).prefix == Prefix::item);
  CHECK(weigh_plans(short_user, {}, {}, 0).prefix == Prefix::item);  // a tie
}

TEST_CASE("a block is worth its cost now if it saves that often enough later") {
  const PromptSizes sizes = sizes_of(500, 10, 10);
  const MissingShares items_there = items_missing(sizes, 0);
  // Now 500 by items and 600 by the user; later 100 instead of 500.
  CHECK(weigh_plans(sizes, items_there, {0, 0}, 0).prefix == Prefix::item);
  CHECK(weigh_plans(sizes, items_there, {0.24, 0}, 0).prefix == Prefix::item);
  const PlanChoice invests = weigh_plans(sizes, items_there, {0.26, 0}, 0);
  CHECK(invests.prefix == Prefix::user);
  CHECK(invests.cost == 600);
  CHECK(invests.gain == doctest::Approx(0.26 * 400));
  // Where the items are long and missing, they are what is kept.
  const PromptSizes heavy = sizes_of(100, 10, 100);
  CHECK(weigh_plans(heavy, {}, {1, 1}, 0).prefix == Prefix::item);
  CHECK(weigh_plans(heavy, {}, {1, 0}, 0).prefix == Prefix::user);
}

TEST_CASE("no choice costs more than the other would, less what it leaves") {
  std::mt19937_64 random(3);
  const auto draw = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  for (int i = 0; i < 500; ++i) {
    PromptSizes sizes{draw(20), draw(1000), {}};
    MissingShares missing{draw(1), {}};
    for (double n = draw(30); n > 0; --n) sizes.items.push_back(draw(60)), missing.items.push_back(draw(1));
    const PlanChoice plain = weigh_plans(sizes, missing, {}, per_pair);
    const double user = plan_cost(Prefix::user, sizes, missing, per_pair);
    const double items = plan_cost(Prefix::item, sizes, missing, per_pair);
    CHECK(plain.cost == std::min(user, items));
    CHECK(plain.gain == 0);
    const PlanChoice far_sighted = weigh_plans(sizes, missing, {draw(3), draw(3)}, per_pair);
    CHECK(far_sighted.cost - far_sighted.gain <= plain.cost);
  }
}

}  // namespace
}  // namespace troupe::router
