// Tests the planner over all plans (T1): its prediction is never above that of a policy with one
// plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_planner_test {

// Blocks held by name, so that all policies find the same state.
struct World {
  std::uint8_t kept_of = 0;    // of 256 blocks
  std::uint32_t history = 20;  // in tokens
  double approximate = -1, usual = 0;
  bool prototypes = false;
  bool prefixes_kept = false;  // instead: the blocks of the item prefix, and no others
  double user_uses = 0, item_uses = 0;
  placement::UnitCosts costs{.token_operations = 1};
  placement::Pace pace{.us_per_operation = 1};
};

World draw_world(std::mt19937& random) {
  const auto real = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  World world{.kept_of = static_cast<std::uint8_t>(random() % 256),
              .history = 1 + static_cast<std::uint32_t>(random() % 40)};
  constexpr double shares[] = {-1, 0, 0.1, 0.4, 1};
  world.approximate = shares[random() % std::size(shares)];
  world.prototypes = random() % 2 == 0;
  if (random() % 2 == 0) world.usual = real(1);
  world.costs = {.token_operations = 1,
                 .pair_operations = real(0.1),
                 .token_bytes = 1,
                 .layers = 1 + static_cast<std::uint32_t>(random() % 8)};
  // Reading a token is never more expensive than computing it; otherwise nothing would be reused.
  world.pace = {.us_per_operation = 50, .us_per_byte = random() % 2 == 0 ? 0 : real(50)};
  return world;
}

BlocksFound found_in(const World& world, const LookupBlocks& asked) {
  BlocksFound found{.id = asked.id};
  const auto prefix = std::ranges::find(asked.blocks, SegmentKind::item, &BlockQuery::kind);
  for (const BlockQuery& block : asked.blocks) {
    const bool kept = world.prefixes_kept ? block.name == prefix->name : block.name.bytes[1] < world.kept_of;
    found.counts.push_back(kept);
    found.uses.push_back(block.kind == SegmentKind::user ? world.user_uses : world.item_uses);
    if (kept) found.holders.push_back(1);
  }
  return found;
}

RankReply answered(const World& world, const std::string& policy) {
  RouterConfig config = small_config();
  config.form.positions_max = 100;
  config.form.interchangeable = config.form.arrangements;
  config.limits.request_tokens_max = 100;
  config.limits.approximate = world.usual;
  if (world.prototypes) config.form.prototype_set = std::make_shared<EvenTokens>();
  config.budget = {100'000};
  config.costs = world.costs;
  config.pace = world.pace;
  RouterBench b(config);
  RankRequest request{1, "t", "ann", {"a", "b"}, 0, policy};
  request.approximate = world.approximate;
  b.probe.receive(0, server, request);
  for (const auto& [started, work] : b.probe.started<FindFeatures>()) b.job = started;
  b.find(1, test_features(world.history));
  if (policy != "recompute") b.probe.receive(2, meta, found_in(world, b.asked));
  const Execute plan = b.plan();
  b.probe.receive(3, worker, b.answer({1, 2}, std::vector<std::uint8_t>(plan.plan.segments.size())));
  REQUIRE(b.replies() == 1);
  return b.probe.sent<RankReply>()[0];
}

TEST_CASE("planner: predicts at most the cost of each single-plan policy that the request allows") {
  std::mt19937 random(7);
  int approximate = 0, exact = 0;
  std::map<std::string, int> plans;  // approximate ones
  for (int i = 0; i < 300; ++i) {
    const World world = draw_world(random);
    CAPTURE(i);
    const RankReply chosen = answered(world, "planner");
    const double allowed = world.approximate < 0 ? world.usual : world.approximate;
    CHECK(chosen.approximate <= allowed);
    std::vector<std::string> policies{"recompute", "user", "item", "causal"};
    World asked = world;
    asked.approximate = allowed;
    if (allowed > 0)
      for (const char* name : {"blocks+30:tail:mean:layer2", "all_blocks+30:tail:mean:layer2"})
        policies.push_back(name);
    if (allowed > 0 && world.prototypes) policies.push_back("all_blocks+30:tail:mean:layer2:prototypes");
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      CHECK(chosen.timings.predicted <= answered(asked, policy).timings.predicted);
    }
    ++(chosen.approximate > 0 ? approximate : exact);
    if (chosen.approximate > 0) ++plans[chosen.plan];
  }
  for (const auto& [plan, count] : plans) {
    CAPTURE(plan);
    CHECK((plan == "blocks" || plan == "all_blocks" || plan == "prototypes"));
  }
  CHECK(plans["prototypes"] > 0);
  CHECK(approximate > 30);
  CHECK(exact > 30);
}

TEST_CASE(
    "planner: only requests that allow it are approximate, never with less history than an exact plan") {
  World world{.kept_of = 255, .costs = {.token_operations = 1, .layers = 8}};
  CHECK(answered(world, "planner").approximate == 0);
  world.approximate = 1;
  CHECK(answered(world, "planner").approximate > 0);
  world.approximate = 0.1;
  CHECK(answered(world, "planner").approximate <= 0.1);
  world.approximate = 1;
  world.history = 89;  // a chain of items would cut part of it off
  const RankReply full = answered(world, "planner");
  CHECK(full.approximate == 0);
  CHECK(full.history_cut == 0);
  CHECK(answered(world, "blocks+30").history_cut > 0);
}

// An approximate plan has blocks of the user and of items. Items return with each request, the user seldom.
TEST_CASE("planner: blocks of items that are wanted often make no user's block worth its cost") {
  World world{.approximate = 1, .costs = {.token_operations = 1, .layers = 8}};
  world.prefixes_kept = true;
  world.item_uses = 20;
  world.user_uses = 0.2;
  CHECK(answered(world, "planner").plan == "item");
  world.user_uses = 20;
  const std::string plan = answered(world, "planner").plan;
  CHECK((plan == "user" || plan == "blocks"));
}

}  // namespace router_planner_test
}  // namespace troupe::router
