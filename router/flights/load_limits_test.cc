#include "router/flights/load_limits.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace load_limits_test {

struct Bench : FlightBench {
  Bench() : FlightBench({1}, {.requests_max = 3, .work_us_max = 50}) {}
  LoadLimits limits{{1'000}, tenants, queues, workers};

  void enqueue(std::uint32_t tokens, const std::string& tenant) {
    Flight& flight = add(tokens, tenant);
    queues.enqueue(at(0), flight, option(flight, 1));
  }
};

TEST_CASE("load limits: a tenant is refused at its limit of requests, or of work per executor slot") {
  Bench b;
  CHECK_FALSE(b.limits.reject_if_over_limit(b.tenants.id_of("a")));
  b.enqueue(60, "a");
  CHECK(b.limits.reject_if_over_limit(b.tenants.id_of("a"))->code == "tenant_overloaded");
  b.tenants.set_slots(2);
  CHECK_FALSE(b.limits.reject_if_over_limit(b.tenants.id_of("a")));
  for (int i = 0; i < 3; ++i) b.add(4, "b");
  const auto refusal = b.limits.reject_if_over_limit(b.tenants.id_of("b"));
  REQUIRE(refusal);
  CHECK(refusal->expected == "at most 3 at a time (router.tenant_requests_max)");
}

TEST_CASE("load limits: a tenant is to blame only if a worker could finish without its own queue") {
  Bench b;
  b.enqueue(900, "a");
  Flight& flight = b.add(200, "a");
  CHECK(b.limits.too_busy({0}, flight, {{1}}, flight.work_at(1, 0)).code == "tenant_overloaded");
  CHECK(b.limits.too_busy({0}, flight, {{1}}, {2'000}).code == "overloaded");
  Flight& light = b.add(200, "b");
  CHECK(b.limits.too_busy({0}, light, {{1}}, light.work_at(1, 0)).code == "overloaded");
  flight.origin.deadline = {999};  // less than the usual budget
  CHECK(b.limits.too_busy({0}, flight, {{1}}, flight.work_at(1, 0)).code == "overloaded");
}

}  // namespace load_limits_test
}  // namespace troupe::router
