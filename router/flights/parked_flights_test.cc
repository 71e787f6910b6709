#include "router/flights/parked_flights.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace parked_flights_test {

TEST_CASE("parked flights: they keep their order, and are due after a change") {
  ParkedFlights parked;
  parked.wake();
  CHECK_FALSE(parked.due());  // none waits
  parked.park({7, false, {}});
  parked.park({8, false, {}});
  parked.park({7, true, {}});
  CHECK(parked.size() == 2);
  CHECK_FALSE(parked.due());
  parked.wake();
  CHECK(parked.due());
  const auto taken = parked.take_all();
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].serial == 7);
  CHECK(taken[0].free);
  CHECK(parked.size() == 0);
}

TEST_CASE("parked flights: a flight that has ended is removed") {
  ParkedFlights parked;
  parked.park({7, false, {}});
  parked.remove(7);
  CHECK(parked.size() == 0);
}

}  // namespace parked_flights_test
}  // namespace troupe::router
