#include "router/request/policy.h"

#include <doctest/doctest.h>

#include <string>

namespace troupe::router {
namespace {

constexpr std::uint32_t long_user = 1'500, short_user = 800, items = 1'000;  // BAT §5.3's own figures

TEST_CASE("BAT puts a long and hot user first") {
  CHECK(choose_prefix(Policy::bat, long_user, items, Hotness{3, 2}) == Prefix::user);
}

TEST_CASE("BAT puts the items first when the user is short, however hot") {
  CHECK(choose_prefix(Policy::bat, short_user, items, Hotness{100, 0}) == Prefix::item);
}

TEST_CASE("BAT does not let a user in who is no hotter than the coldest one cached") {
  CHECK(choose_prefix(Policy::bat, long_user, items, Hotness{2, 2}) == Prefix::item);
  CHECK(choose_prefix(Policy::bat, long_user, items, Hotness{1, 2}) == Prefix::item);
}

TEST_CASE("BAT lets any longer user in while there is room, and equal lengths count as longer") {
  CHECK(choose_prefix(Policy::bat, long_user, items, Hotness{1, 0}) == Prefix::user);
  CHECK(choose_prefix(Policy::bat, items, items, Hotness{1, 0}) == Prefix::user);
  CHECK(choose_prefix(Policy::bat, items - 1, items, Hotness{1, 0}) == Prefix::item);
}

TEST_CASE("BAT puts the items first when the index is silent") {
  CHECK(choose_prefix(Policy::bat, long_user, items, std::nullopt) == Prefix::item);
}

TEST_CASE("the baselines look at nothing") {
  for (const auto& hotness : {std::optional<Hotness>{}, std::optional<Hotness>{{9, 0}}}) {
    CHECK(choose_prefix(Policy::recompute, long_user, items, hotness) == Prefix::none);
    CHECK(choose_prefix(Policy::user, short_user, items, hotness) == Prefix::user);
    CHECK(choose_prefix(Policy::item, long_user, items, hotness) == Prefix::item);
    CHECK(choose_prefix(Policy::larger, long_user, items, hotness) == Prefix::user);
    CHECK(choose_prefix(Policy::larger, short_user, items, hotness) == Prefix::item);
  }
}

TEST_CASE("every policy is found by its name, and nothing else is") {
  for (const Policy policy :
       {Policy::recompute, Policy::user, Policy::item, Policy::larger, Policy::bat, Policy::planner})
    CHECK(find_policy(name_of(policy)) == policy);
  for (const char* name : {"", "BAT", "users", "none"}) CHECK_FALSE(find_policy(name).has_value());
}

}  // namespace
}  // namespace troupe::router
