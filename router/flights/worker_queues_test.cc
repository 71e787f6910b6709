#include "router/flights/worker_queues.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace worker_queues_test {

struct Bench : FlightBench {
  Flight& enqueue(std::uint32_t tokens, const std::string& tenant = "t", NodeId node = 1) {
    Flight& flight = add(tokens, tenant);
    queues.enqueue(at(0), flight, option(flight, node));
    return flight;
  }
};

TEST_CASE("worker queues: a plan is sent at once only past an empty queue, to a worker with capacity") {
  Bench b;
  CHECK(b.queues.may_send_at_once(1));
  Flight& waits = b.enqueue(4);
  CHECK_FALSE(b.queues.may_send_at_once(1));
  CHECK(b.queues.may_send_at_once(2));
  b.queues.leave(b.at(30), waits);
  CHECK(b.queues.may_send_at_once(1));
  CHECK(b.queues.waiting() == 0);
  CHECK(waits.timings.turn == 30);
  b.attempt(waits, 1);
  b.attempt(waits, 1);  // one more than executor slots
  CHECK_FALSE(b.queues.may_send_at_once(1));
}

TEST_CASE("worker queues: flights are taken in turn while the worker has capacity") {
  Bench b;
  Flight& first = b.enqueue(4);
  Flight& second = b.enqueue(4);
  CHECK(b.queues.take_next(1) == first.serial);
  b.queues.end_waiting(b.at(0), first);
  b.attempt(first, 1);
  b.attempt(first, 1);
  CHECK_FALSE(b.queues.take_next(1).has_value());
  CHECK(b.queues.take_all(1) == std::vector<Flight::Serial>{second.serial});
  CHECK_FALSE(b.queues.take_next(2).has_value());
}

TEST_CASE("worker queues: waiting work is known by worker, and by what goes after a tenant's request") {
  Bench b;
  b.enqueue(40, "heavy");
  Flight& newest = b.enqueue(30, "heavy");
  b.enqueue(10, "heavy", 2);
  CHECK(b.queues.work_us(1) == 70);
  CHECK(b.queues.work_us(2) == 10);
  CHECK(b.queues.passes_us(1, b.tenants.id_of("heavy")) == 0);
  CHECK(b.queues.passes_us(1, b.tenants.id_of("light")) == 70);
  CHECK(b.queues.newest_of(b.tenants.id_of("heavy")) == newest.serial);
  CHECK_FALSE(b.queues.newest_of(b.tenants.id_of("light")).has_value());
}

}  // namespace worker_queues_test
}  // namespace troupe::router
