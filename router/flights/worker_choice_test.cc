#include "router/flights/worker_choice.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace worker_choice_test {

struct Bench : FlightBench {
  Bench() : FlightBench({1, 2, 3}) {}
  WorkerChoice choice{Routing::By::earliest, workers, queues};

  NodeId choose(const Flight& flight, std::vector<NodeId> excluded = {}) {
    const auto option = choice.choose({0}, flight, excluded);
    return option ? option->node : 0;
  }
};

TEST_CASE("worker choice: the idle worker is chosen, and none if all are excluded") {
  Bench b;
  Flight& busy = b.add(100);
  b.attempt(busy, 1);
  b.attempt(busy, 2);
  const Flight& flight = b.add();
  CHECK(b.choose(flight) == 3);
  CHECK(b.choose(flight, {3}) == 1);
  CHECK(b.choose(flight, {1, 2, 3}) == 0);
}

TEST_CASE("worker choice: the holder of most blocks is considered beside the candidates from admission") {
  Bench b;
  Flight& flight = b.add(100);
  flight.workers = {1};
  CHECK(b.choose(flight) == 1);
  b.hold_block(flight, SegmentKind::item, {3});
  CHECK(b.choose(flight) == 3);
}

TEST_CASE("worker choice: fresh candidates are drawn when those from admission are excluded") {
  Bench b;
  Flight& flight = b.add();
  flight.workers = {1};
  const NodeId chosen = b.choose(flight, {1});
  CHECK((chosen == 2 || chosen == 3));
}

TEST_CASE("worker choice: a worker for which the plan was too large may get it only if it lacks less") {
  Bench b;
  Flight& flight = b.add(100);
  b.hold_block(flight, SegmentKind::item, {2});
  flight.too_many_operations = 100;
  CHECK(b.choose(flight) == 2);
  CHECK(b.choose(flight, {2}) != 0);  // a quarter of the work: the block is pulled
  flight.too_many_operations = 0;
  CHECK(b.choose(flight) == 0);
}

}  // namespace worker_choice_test
}  // namespace troupe::router
