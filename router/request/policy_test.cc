#include "router/request/policy.h"

#include <doctest/doctest.h>

#include <string>

#include "router/request/plans.h"

namespace troupe::router {
namespace {

constexpr std::uint64_t long_user = 1'500, short_user = 800, items = 1'000;  // figures of BAT §5.3

std::string_view chosen(std::string_view name, std::uint64_t user_tokens,
                        const std::optional<Hotness>& hotness) {
  const Policy policy = router::policy(name);
  if (!policy->rule) return policy->plans.empty() ? "first" : policy->plans.front();
  return policy->rule({user_tokens, items, hotness});
}

TEST_CASE("BAT rule: a long and hot user comes first") {
  CHECK(chosen("bat", long_user, Hotness{3, 2}) == "user");
}

TEST_CASE("BAT rule: items come first if the user is short, however hot") {
  CHECK(chosen("bat", short_user, Hotness{100, 0}) == "item");
}

TEST_CASE("BAT rule: a user no hotter than the coldest cached user is not admitted") {
  CHECK(chosen("bat", long_user, Hotness{2, 2}) == "item");
  CHECK(chosen("bat", long_user, Hotness{1, 2}) == "item");
}

TEST_CASE("BAT rule: a longer user is admitted while no user is cached, and equal lengths count as longer") {
  CHECK(chosen("bat", long_user, Hotness{1, 0}) == "user");
  CHECK(chosen("bat", items, Hotness{1, 0}) == "user");
  CHECK(chosen("bat", items - 1, Hotness{1, 0}) == "item");
}

TEST_CASE("BAT rule: items come first if the index is silent") {
  CHECK(chosen("bat", long_user, std::nullopt) == "item");
  CHECK(chosen("planner", long_user, std::nullopt) == "first");
}

TEST_CASE("baselines: their rules ignore sizes and hotness") {
  for (const auto& hotness : {std::optional<Hotness>{}, std::optional<Hotness>{{9, 0}}}) {
    CHECK(chosen("recompute", long_user, hotness) == "first");
    CHECK(chosen("user", short_user, hotness) == "user");
    CHECK(chosen("item", long_user, hotness) == "item");
    CHECK(chosen("larger", long_user, hotness) == "user");
    CHECK(chosen("larger", short_user, hotness) == "item");
  }
  CHECK_FALSE(policy("recompute")->reuses);
}

TEST_CASE("policies: each is found by its name and considers existing plans; other names are not found") {
  for (const PolicyKind& kind : policy_kinds()) {
    CAPTURE(kind.name);
    CHECK(policy(kind.name).name() == kind.name);
    for (const std::string_view plan : kind.plans) CHECK(find_plan(plan) != nullptr);
    for (const std::string_view plan : kind.approximate_plans) CHECK(find_plan(plan)->approximate);
  }
  for (const char* name : {"", "BAT", "users", "none"}) CHECK_FALSE(find_policy(name).has_value());
}

TEST_CASE("policy names: errors list them with a final or") {
  const std::string names = policy_names();
  CHECK(names.starts_with("recompute, user, item, "));
  CHECK(names.ends_with(" or " + std::string(policy_kinds().back().name)));
  CHECK(names.find(" or ") == names.rfind(" or "));
}

TEST_CASE("repair: a policy name may have one if one of its plans has blocks of items") {
  REQUIRE(find_policy("item+25").has_value());
  CHECK(policy("item+25").repair().share == 0.25);
  CHECK(policy("item+25").name() == "item+25");
  CHECK(policy("item").repair().share == 0);
  CHECK_FALSE(policy("item") == policy("item+25"));
  for (const char* name : {"item+25:tail", "item+30:importance:mean:layer2", "item+25:window8", "bat+25:tail",
                           "larger+50", "item+100", "item+0:window8"})
    CHECK_MESSAGE((find_policy(name).has_value() && policy(name).name() == name), name);
  CHECK(policy("bat+25").repair_of(*find_plan("item")).share == 0.25);
  CHECK(policy("bat+25").repair_of(*find_plan("user")) == RepairChoice{});
  for (const char* name :
       {"user+25", "recompute+25", "causal+25", "item+", "item+0", "item+101", "item+2x", "item+ 2", "+25"})
    CHECK_FALSE(find_policy(name).has_value());
}

TEST_CASE("repair: a policy that cannot have the named one says why") {
  for (const char* name : {"user+25", "causal+30:tail", "recompute+25"})
    CHECK(policy_fault(name).what == ", whose repair would have no blocks of items");
  CHECK(policy_fault("item+0").what == ", whose repair repairs nothing");
  for (const char* name : {"item+25:history20", "bat+25:prototypes"})
    CHECK(policy_fault(name).what == ", whose repair is of histories, which are no blocks in its plans");
  CHECK(policy_fault("bat+25:best").what.find("best") != std::string::npos);
  CHECK(policy_fault("best+25").what == "");
}

TEST_CASE("repair: approximate plans accept rules and corrections, each once") {
  for (const char* name : {"blocks+30:tail:mean:layer2", "blocks+30:attention",
                           "all_blocks+40:importance:layer2", "blocks+10:mean", "blocks+5"}) {
    REQUIRE(find_policy(name).has_value());
    CHECK(policy(name).name() == name);
  }
  CHECK(policy("blocks+30:mean:tail").name() == "blocks+30:tail:mean");
  CHECK(policy("blocks+30:tail").repair().by == RepairChoice::By::tail);
  CHECK(correction_of(policy("blocks+30:tail:mean:layer2").repair()) == "mean+layer2");
  CHECK(correction_of(policy("blocks+30").repair()) == "none");
  CHECK(policy("blocks+30:window64:history20:tail").name() == "blocks+30:tail:history20:window64");
  CHECK(policy("all_blocks+30:history0").repair().history == 0);
  CHECK(policy("all_blocks+0:history100").name() == "all_blocks+0:history100");
  CHECK(policy("blocks+0:window8").repair().window == 8);
  CHECK(policy("all_blocks+30:prototypes:tail").name() == "all_blocks+30:tail:prototypes");
  for (const char* name : {"item+25:history20", "item+25:prototypes", "blocks+0", "blocks+30:history",
                           "blocks+30:history101", "blocks+30:history20:history20", "blocks+30:window0",
                           "blocks+30:window-1", "blocks+30:window8x", "blocks+30:window9999999"})
    CHECK_FALSE(find_policy(name).has_value());
  for (const char* name :
       {"item+25:tail:tail", "item+25:mean:mean", "blocks:tail", "blocks+30:", "blocks+30:best",
        "blocks+30:tail:attention", "blocks+30:mean:mean", "blocks+30:layer2:layer2"})
    CHECK_FALSE(find_policy(name).has_value());
}

TEST_CASE("repair: the planner repairs only approximate plans, as named or by the default") {
  const PlanKind &item = *find_plan("item"), &blocks = *find_plan("blocks");
  CHECK(policy("planner").name() == "planner");
  CHECK(policy("planner").repair_of(blocks) == policy("blocks+30:tail:mean:layer2").repair());
  CHECK(policy("planner").repair_of(*find_plan("prototypes")) == policy("planner").repair_of(blocks));
  CHECK(policy("planner").repair_of(item) == RepairChoice{});
  CHECK(policy("planner+40:mean").name() == "planner+40:mean");
  CHECK(policy("planner+40:mean").repair_of(blocks).share == 0.4);
  CHECK(policy("planner+40:mean").repair_of(item) == RepairChoice{});
  CHECK(policy("item+25").repair_of(item).share == 0.25);
  for (const char* name : {"planner+", "planner+0"}) CHECK_FALSE(find_policy(name).has_value());
}

}  // namespace
}  // namespace troupe::router
