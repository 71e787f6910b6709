#include "router/flights/attempts.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace attempts_test {

struct Bench : AttemptsBench {
  explicit Bench(std::vector<NodeId> nodes = {1, 2, 3}, Duration wait = {0})
      : AttemptsBench(nodes, {8}, wait) {
    for (const NodeId node : nodes) beat(0, node);
  }
  void beat(std::int64_t us, NodeId node, Incarnation incarnation = 5) {
    Heartbeat beat{.incarnation = incarnation, .sequence = ++beats, .slots = 1};
    beat.models = {"m"};
    workers.hear({us}, node, beat);
  }
  std::uint64_t beats = 0;

  static Address worker(NodeId node) { return {node, Role::inference_worker}; }
  static NodeId node_of(const Flight& flight) { return flight.attempts.back().ticket.node; }
  static Executed result(const Flight& flight) { return {flight.serial, {{{1, 2}}}, {0}, 0, 0, 0, 0, "m"}; }
  std::string refused() {
    const auto refusals = sent<Refused>();
    return refusals.empty() ? "" : refusals[0].refusal.code;
  }
  void refuse(const Flight& flight, RefusalKind kind, const std::string& code) {
    effects = {};
    attempts.on_refused(at(1), worker(node_of(flight)), {flight.serial, {kind, code}});
  }
  void lose(const Flight& flight, bool silent = false) {
    effects = {};
    const NodeId node = node_of(flight);
    workers.lose(node);
    attempts.lose(at(1), {&node, 1}, "is gone", silent);
  }
  // Returns the ids of the plans that are sent.
  std::vector<RequestId> retry_parked(std::int64_t us) {
    effects = {};
    flights.parked().wake();
    attempts.retry_parked(at(us));
    std::vector<RequestId> ids;
    for (const Execute& plan : sent<Execute>()) ids.push_back(plan.id);
    return ids;
  }
};

TEST_CASE("attempts: a plan is tried on other workers until its attempts are used up") {
  Bench b;
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  const NodeId first = b.node_of(flight);
  b.refuse(flight, RefusalKind::unavailable, "overloaded");
  CHECK(b.node_of(flight) != first);
  CHECK(b.attempts.retries() == 1);
  b.refuse(flight, RefusalKind::unavailable, "overloaded");
  CHECK(b.refused() == "overloaded");
  CHECK(b.flights.size() == 0);
}

TEST_CASE("attempts: a refusal by a draining worker costs none, one for the plan's own fault ends it") {
  Bench b;
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  b.refuse(flight, RefusalKind::unavailable, "draining");
  b.refuse(flight, RefusalKind::unavailable, "overloaded");
  CHECK(flight.attempts.size() == 3);
  CHECK(b.attempts.retries() == 1);
  b.refuse(flight, RefusalKind::unprocessable, "bad_plan");
  CHECK(b.refused() == "bad_plan");
}

TEST_CASE("attempts: a valid answer ends the attempt, an invalid one is retried") {
  Bench b;
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  Executed wrong = b.result(flight);
  wrong.model_version = "other";
  CHECK_FALSE(b.attempts.on_executed(b.at(1), b.worker(b.node_of(flight)), flight, wrong));
  CHECK(flight.attempts.size() == 2);
  CHECK(b.attempts.on_executed(b.at(1), b.worker(b.node_of(flight)), flight, b.result(flight)));
  CHECK_FALSE(flight.has_open_attempt());
}

TEST_CASE("attempts: a worker's loss makes the request a suspect, and a second loss makes it poison") {
  Bench b;
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  b.lose(flight);
  const auto reports = b.sent<Suspect>();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].strikes == 1);
  CHECK(flight.attempts.back().alone);
  b.lose(flight);
  CHECK(b.refused() == "poison");
}

TEST_CASE("attempts: a request whose two workers are silent runs nowhere else, and their answers count") {
  for (const char* then : {"answers", "is heard", "has restarted", "has gone"}) {
    CAPTURE(then);
    Bench b;
    Flight& flight = b.add();
    b.attempts.execute(b.at(0), flight);
    const NodeId first = b.node_of(flight);
    b.lose(flight, true);
    const NodeId second = b.node_of(flight);
    REQUIRE(second != first);
    b.lose(flight, true);
    CHECK(b.refused() == "");
    CHECK(b.retry_parked(10).empty());
    CHECK(flight.attempts.size() == 2);
    CHECK(b.flights.parked().size() == 1);
    const std::string what = then;
    if (what == "answers") {
      CHECK(b.attempts.on_executed(b.at(20), b.worker(first), flight, b.result(flight)));
    } else if (what == "has gone") {
      b.attempts.cancel(b.at(20), flight);
      CHECK(b.refused() == "client_gone");
    } else {
      const Incarnation process = what == "is heard" ? 5 : 6;
      for (const NodeId node : {first, second}) b.beat(20, node, process);
      for (const NodeId node : {first, second}) b.attempts.hear_alive({20}, node, process, 100);
      CHECK(b.retry_parked(20).empty());                  // it was sent twice already
      CHECK(b.flights.size() == (process == 5 ? 1 : 0));  // poison
      CHECK(b.flights.parked().size() == 0);
      if (process == 5) CHECK(b.attempts.on_executed(b.at(30), b.worker(first), flight, b.result(flight)));
    }
  }
}

TEST_CASE("attempts: a suspect waits while the only other worker runs a suspect") {
  Bench b({1, 2});
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  Flight& other = b.add();
  const NodeId there = 3 - b.node_of(flight);
  b.attempt(other, there);
  other.attempts.back().suspect = true;
  b.lose(flight);
  CHECK(b.flights.parked().size() == 1);
  CHECK(flight.attempts.size() == 1);
  b.flights.close(b.at(2), other);
  b.attempts.retry_parked(b.at(2));
  CHECK(b.flights.parked().size() == 0);
  CHECK(b.node_of(flight) == there);
}

TEST_CASE("attempts: without a usable worker a flight waits a moment for one, then it is refused") {
  Bench b({1, 2}, {600});
  b.workers.lose(1), b.workers.lose(2);
  Flight& first = b.add();
  b.attempts.execute(b.at(10), first);
  CHECK(b.flights.parked().size() == 1);
  CHECK(b.retry_parked(20).empty());
  b.beat(30, 2);
  CHECK(b.retry_parked(30) == std::vector<RequestId>{first.serial});
  CHECK(b.flights.parked().size() == 0);
  b.workers.lose(2);
  b.attempts.execute(b.at(599), b.add());
  CHECK(b.flights.parked().size() == 1);
  b.retry_parked(600);
  CHECK(b.flights.parked().size() == 0);
  b.effects = {};
  b.attempts.execute(b.at(601), b.add());
  CHECK(b.refused() == "no_worker");
}

TEST_CASE("attempts: a plan goes back to the only worker, which was taken for lost") {
  for (const bool silent : {true, false}) {
    Bench b({1, 2}, {600});
    b.workers.lose(2);
    Flight& flight = b.add();
    b.attempts.execute(b.at(0), flight);
    const RequestId before = flight.serial;
    b.lose(flight, silent);
    CHECK(b.refused() == "");
    CHECK(b.retry_parked(10).empty());
    b.beat(20, 1);
    const auto plans = b.retry_parked(20);
    REQUIRE(plans.size() == 1);
    // A process that was silent has the plan, and ignores a copy. One that was cut off has dropped it.
    CHECK((plans[0] == before) == silent);
    CHECK(b.attempts.on_executed(b.at(30), b.worker(1), flight, b.result(flight)));
  }
}

TEST_CASE("attempts: a silent worker whose connection breaks then has dropped the plan, too") {
  Bench b({1, 2}, {600});
  b.workers.lose(2);
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  const RequestId before = flight.serial;
  b.lose(flight, true);
  const NodeId node = 1;
  b.attempts.lose(b.at(5), {&node, 1}, "is gone");
  b.beat(20, 1);
  const auto plans = b.retry_parked(20);
  REQUIRE(plans.size() == 1);
  CHECK(plans[0] != before);
}

TEST_CASE("attempts: a plan whose only worker is lost is refused for that when the wait is over") {
  Bench b({1}, {600});
  Flight& flight = b.add();
  b.attempts.execute(b.at(0), flight);
  b.lose(flight);
  CHECK(b.flights.parked().size() == 1);
  b.flights.parked().wake();
  b.attempts.retry_parked(b.at(600));
  CHECK(b.refused() == "worker_lost");
}

TEST_CASE("attempts: a flight waits for a busy worker, and moves when that worker drains") {
  Bench b({1, 2});
  for (int i = 0; i < 4; ++i) b.attempts.execute(b.at(0), b.add());
  Flight& waits = b.add();
  b.attempts.execute(b.at(0), waits);
  REQUIRE(waits.queued);
  const NodeId busy = waits.queued->option.node;
  b.workers.lose(busy);
  b.attempts.requeue(b.at(0), busy);
  REQUIRE(waits.queued);
  CHECK(waits.queued->option.node != busy);
  Flight& first =
      b.flights.find(100)->attempts.front().ticket.node == busy ? *b.flights.find(101) : *b.flights.find(100);
  b.flights.close(b.at(1), first);
  b.attempts.send_queued(b.at(1));
  CHECK_FALSE(waits.queued);
  CHECK(waits.attempts.size() == 1);
}

}  // namespace attempts_test
}  // namespace troupe::router
