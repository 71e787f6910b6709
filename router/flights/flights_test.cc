#include "router/flights/flights.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace flights_test {

TEST_CASE("flights: a flight that ends gives back its attempts, its queue position and its tenant's load") {
  FlightBench b;
  Flight& runs = b.add(4, "a");
  b.attempt(runs, 1);
  Flight& waits = b.add(4, "a");
  b.queues.enqueue(b.at(0), waits, b.option(waits, 1));
  b.flights.parked().park({waits.serial, false, {}});
  CHECK(b.tenants[b.tenants.id_of("a")].requests == 2);
  CHECK(b.workers.predicted_us({0}, 1, {}) > 0);
  b.flights.refuse(b.at(1), waits, {RefusalKind::unavailable, "x"});
  b.flights.close(b.at(1), runs);
  CHECK(b.flights.size() == 0);
  CHECK(b.flights.parked().size() == 0);
  CHECK(b.queues.waiting() == 0);
  CHECK(b.tenants[b.tenants.id_of("a")].requests == 0);
  CHECK(b.workers.predicted_us({0}, 1, {}) == 0);
  CHECK(b.outcomes.open_count() == 0);
  CHECK(b.flights.admitted() == 2);
  CHECK(b.flights.answered() == 1);
  CHECK(b.sent<Refused>().size() == 1);
}

TEST_CASE("flights: an ended flight is not found, and wakes parked ones") {
  FlightBench b;
  Flight& ends = b.add();
  const Flight::Serial serial = ends.serial;
  b.flights.parked().park({b.add().serial, false, {}});
  CHECK(b.flights.find(serial) == &ends);
  b.flights.refuse(b.at(1), ends, {RefusalKind::unavailable, "x"});
  CHECK(b.flights.find(serial) == nullptr);
  CHECK(b.flights.parked().due());
}

TEST_CASE("flights: a renumbered flight is found by its new serial, and keeps its deadline and attempts") {
  FlightBench b;
  Flight& flight = b.add();
  b.attempt(flight, 1);
  flight.attempts[0].state = Attempt::State::over;
  const Flight::Serial before = flight.serial;
  b.flights.parked().park({before, false, {}});
  b.effects = {};
  b.flights.renumber(b.at(1), flight);
  CHECK(flight.serial != before);
  CHECK(b.flights.find(before) == nullptr);
  CHECK(b.flights.find(flight.serial) == &flight);
  CHECK(b.flights.parked().size() == 0);
  CHECK(b.flights.size() == 1);
  CHECK(flight.attempts.size() == 1);
  REQUIRE(b.effects.list.size() == 1);
  const auto* timer = std::get_if<Effects::SetTimer>(&b.effects.list[0]);
  REQUIRE(timer);
  CHECK(timer->at.us == flight.origin.deadline.us);
  CHECK(timer->timer / 4 == flight.serial);
}

TEST_CASE("flights: nodes with suspects are those of open attempts") {
  FlightBench b;
  Flight& flight = b.add();
  b.attempt(flight, 1);
  CHECK(b.flights.nodes_with_suspects().empty());
  flight.attempts[0].suspect = true;
  CHECK(b.flights.nodes_with_suspects() == std::vector<NodeId>{1});
  flight.attempts[0].state = Attempt::State::over;
  CHECK(b.flights.nodes_with_suspects().empty());
}

TEST_CASE("flights: flights of versions that are no longer served are outdated") {
  FlightBench b;
  VersionKeeper versions({.model_version = "m", .catalog_version = "c"}, false);
  const ModelShare share(versions, b.workers);
  Flight& flight = b.add();
  CHECK_FALSE(b.flights.any_outdated(share));
  flight.pinned.catalog_version = "old";
  CHECK(b.flights.any_outdated(share));
}

}  // namespace flights_test
}  // namespace troupe::router
