#include "router/flights/admission.h"

#include "router/flights/timers.h"
#include "router/testing/flights_test.h"

namespace troupe::router {
namespace admission_test {

struct Bench : FlightBench {
  Bench() : FlightBench({1}) {}
  VersionKeeper versions{{.model_version = "m", .catalog_version = "c"}, false};
  LeaderView leader{{1}, {1'000}};
  Availability availability{{}, versions, workers, leader};
  Admission admission{
      2, {{1'000}, tenants, queues, workers}, availability, tenants, workers, queues, outcomes, flights};

  // Returns the code of the refusal, or "" if the request was admitted.
  std::string admit(RequestId id, const std::string& tenant = "t", std::optional<Refusal> fault = {},
                    double operations = 10, std::size_t feature_jobs = 0) {
    const RequestOrigin origin{client, id, {0}, {1'000}};
    CHECK_FALSE(admission.is_copy(origin));
    Flight* flight =
        admission.admit(at(0), {origin, tenant, {"m", "c"}, 5, std::move(fault), {operations}, feature_jobs});
    const auto refused = sent<Refused>();
    CHECK((flight != nullptr) == refused.empty());
    CHECK(admission.is_copy(origin));
    return refused.empty() ? "" : refused[0].refusal.code;
  }
};

TEST_CASE("admission: an admitted request has a serial, a worker and the timer of its deadline") {
  Bench b;
  const RequestOrigin origin{b.client, 1, {0}, {1'000}};
  const Flight* flight = b.admission.admit(b.at(0), {origin, "t", {"m", "c"}, 5});
  REQUIRE(flight);
  CHECK(flight->serial == 100);
  CHECK(b.next_id == 101);
  CHECK(flight->workers == std::vector<NodeId>{1});
  CHECK(flight->home == 5);
  std::vector<std::pair<std::uint64_t, Instant>> timers;
  for (const auto& effect : b.effects.list)
    if (const auto* set = std::get_if<Effects::SetTimer>(&effect)) timers.push_back({set->timer, set->at});
  REQUIRE(timers.size() == 1);
  CHECK(timers[0].first == timer_of(100, TimerKind::deadline));
  CHECK(timers[0].second == Instant{1'000});
}

TEST_CASE("admission: a fault goes first, then draining, then time, then the number of flights") {
  Bench b;
  b.availability.drain(b.at(0), true);
  CHECK(b.admit(1, "t", Refusal{RefusalKind::unprocessable, "own"}) == "own");
  CHECK(b.admit(2, "t", {}, 2'000) == "draining");
  b.availability.drain(b.at(0), false);
  CHECK(b.admit(3, "t", {}, 2'000) == "overloaded");
  CHECK(b.admit(4, "t", {}, 10, 2) == "overloaded");  // features are still read for ended flights
  CHECK(b.admit(5) == "");
  CHECK(b.admit(6) == "");
  CHECK(b.admit(7) == "overloaded");
  CHECK(b.tenants.size() == 2);  // a faulty request names no tenant
}

TEST_CASE("admission: in a full router the newest waiting flight of the heaviest tenant makes way") {
  Bench b;
  for (const RequestId id : {1, 2}) {
    REQUIRE(b.admit(id, "heavy") == "");
    Flight& flight = *b.flights.find(b.next_id - 1);
    b.queues.enqueue(b.at(0), flight, {.node = 1, .work = {10}});
  }
  CHECK(b.admit(3, "heavy") == "tenant_overloaded");
  const RequestOrigin origin{b.client, 4, {0}, {1'000}};
  CHECK(b.admission.admit(b.at(0), {origin, "light", {"m", "c"}}) != nullptr);
  const auto refused = b.sent<Refused>();
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].id == 2);
  CHECK(b.flights.size() == 2);
}

}  // namespace admission_test
}  // namespace troupe::router
