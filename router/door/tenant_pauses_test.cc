#include "router/door/tenant_pauses.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

const Refusal too_much{429, "tenant_overloaded", "it has 9 requests here", "tenant", "at most 9", 2};

TEST_CASE("who was refused for having too much is told so for a moment, and others are not") {
  TenantPauses pauses(20, 4);
  pauses.refused("flood", too_much, 100);
  REQUIRE(pauses.find("flood", 119) != nullptr);
  CHECK(*pauses.find("flood", 119) == too_much);
  CHECK(pauses.find("steady", 119) == nullptr);
  CHECK(pauses.find("flood", 120) == nullptr);
  CHECK(pauses.size() == 0);
}

TEST_CASE("only the router's word counts, and only that the tenant has too much") {
  TenantPauses pauses(20, 4);
  pauses.refused("a", {503, "overloaded", "", "", ""}, 0);
  pauses.refused("b", {404, "unknown_user", "", "", ""}, 0);
  CHECK(pauses.find("a", 1) == nullptr);
  CHECK(pauses.find("b", 1) == nullptr);
}

TEST_CASE("names that are invented take no more places than there are") {
  TenantPauses pauses(20, 2);
  for (const char* tenant : {"a", "b", "c"}) pauses.refused(tenant, too_much, 0);
  CHECK(pauses.size() == 2);
  CHECK(pauses.find("c", 1) == nullptr);
  pauses.refused("a", too_much, 10);  // one that has a place keeps it
  CHECK(pauses.find("a", 25) != nullptr);
  pauses.refused("c", too_much, 25);  // b's is over
  CHECK(pauses.find("c", 26) != nullptr);
}

}  // namespace
}  // namespace troupe::router
