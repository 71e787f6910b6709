#include "router/tenants/tenants.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

TEST_CASE("tenant weights: they are parsed, and a bad one is reported with what was expected") {
  CHECK(parse_tenant_weights("").empty());
  const TenantWeights weights = parse_tenant_weights("search=4,a=b=0.5,=2");
  CHECK(weights.at("search") == 4);
  CHECK(weights.at("a=b") == 0.5);
  CHECK(weights.at("") == 2);
  for (const char* bad :
       {"search", "search=", "search=0", "search=-1", "a=1,a=2", "a=1,", "a=1e9", "a=nan", "a=1x"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_tenant_weights(bad), doctest::Contains("expected TENANT=WEIGHT"),
                         std::invalid_argument);
  }
}

TEST_CASE("tenants: an unknown tenant has weight 1, a listed one its own") {
  Tenants tenants({.weights = {{"search", 4.0}}});
  CHECK(tenants[tenants.id_of("search")].weight == 4);
  CHECK(tenants[tenants.id_of("new")].weight == 1);
  CHECK(tenants.id_of("new") == tenants.id_of("new"));
}

TEST_CASE("tenants: names beyond the bound share one id, and an idle name is replaced") {
  Tenants tenants({.weights = {{"search", 4.0}}, .tenants_max = 2});
  const TenantId a = tenants.id_of("a"), b = tenants.id_of("b");
  tenants.enter(a);
  tenants.enter(b);
  CHECK(tenants.id_of("c") == Tenants::others);
  CHECK(tenants.id_of("search") != Tenants::others);
  tenants.leave(a);
  CHECK(tenants.id_of("a") == a);  // its id was not needed yet
  CHECK(tenants.id_of("c") == a);
  CHECK(tenants.id_of("b") == b);
  tenants.enter(a);  // the id is c's now, and the earlier name counts among the others
  CHECK(tenants.id_of("a") == Tenants::others);
  tenants.leave(a);
  for (int i = 0; i < 10'000; ++i) tenants.id_of("invented " + std::to_string(i));
  CHECK(tenants.size() == 4);
  CHECK(tenants[b].name == "b");
}

TEST_CASE("tenants: the heaviest has most requests for its weight and one that waits") {
  Tenants tenants({.weights = {{"wide", 4.0}}});
  const TenantId wide = tenants.id_of("wide"), a = tenants.id_of("a"), b = tenants.id_of("b");
  for (int i = 0; i < 8; ++i) tenants.enter(wide);
  for (int i = 0; i < 3; ++i) tenants.enter(a);
  for (int i = 0; i < 9; ++i) tenants.enter(b);
  CHECK_FALSE(tenants.heaviest());
  tenants.wait(wide, 10);
  CHECK(*tenants.heaviest() == wide);
  tenants.wait(a, 10);
  CHECK(*tenants.heaviest() == a);
  tenants.stop_waiting(a, 10);
  CHECK(*tenants.heaviest() == wide);
  const auto busy = tenants.busiest(2);
  REQUIRE(busy.size() == 2);
  CHECK(busy[0]->name == "wide");
  CHECK(busy[1]->name == "a");
}

}  // namespace
}  // namespace troupe::router
