// Tests of requests whose client has gone: nothing is begun for them, and what has begun is completed.
#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_cancel_test {

// A worker with one executor slot, which takes two plans and no more; a second worker for retries.
RouterConfig two_workers() {
  RouterConfig config = cluster_config({1, 2});
  config.window = {0};
  config.budget_max = {100'000};
  return config;
}

struct Gone : RouterBench {
  explicit Gone(RouterConfig config = small_config()) : RouterBench(std::move(config)) { probe.start(); }
  void cancel(std::int64_t us, RequestId id) { probe.receive(us, server, Cancel{id}); }
};

TEST_CASE("cancel: a request whose features are being read is not planned") {
  Gone b;
  b.rank(0, 1, "recompute", 50'000);
  b.cancel(1, 1);
  CHECK(b.refused() == "unavailable client_gone");
  b.find(2);
  CHECK(b.plans() == 0);
  b.cancel(3, 1);  // twice
  b.cancel(3, 99);
  CHECK(b.probe.effects.list.empty());
}

TEST_CASE("cancel: a request that waits until a worker is usable gets its outcome at once") {
  Gone b(two_workers());
  for (const NodeId node : {1, 2}) b.probe.lose(0, node);
  b.rank(1, 1, "recompute", 50'000);
  REQUIRE(b.probe.sent<Refused>().empty());  // kept
  b.cancel(2, 1);
  CHECK(b.refused() == "unavailable client_gone");
  b.beat(3, 1, beat_of(5));
  CHECK(b.probe.started<FindFeatures>().empty());
}

TEST_CASE("early requests: one with a short budget is answered within it, though nothing else happens") {
  Gone b(two_workers());
  for (const NodeId node : {1, 2}) b.probe.lose(0, node);
  b.rank(1, 1, "recompute", 100);
  REQUIRE(b.probe.sent<Refused>().empty());
  b.run_until(51);
  CHECK(b.refused() == "unavailable no_worker");
}

TEST_CASE("cancel: a copy that waits until a worker is usable leaves the outcome to the request") {
  Gone b(two_workers());
  b.send(0, 1, 50'000);
  REQUIRE(b.plans() == 1);
  Heartbeat drains = beat_of(5);
  drains.draining = true;
  for (const NodeId node : {1, 2}) b.beat(1, node, drains);
  b.rank(2, 1, "recompute", 50'000);
  REQUIRE(b.probe.started<FindFeatures>().empty());  // kept
  b.cancel(3, 1);
  CHECK(b.refused().empty());
  CHECK(b.probe.sent<Cancel>().size() == 1);
}

TEST_CASE("cancel: a request that waits for a worker is never sent") {
  RouterConfig config = small_config();
  config.window = {0};
  config.in_flight_max = 8;
  Gone b(std::move(config));
  std::vector<std::uint64_t> sent;
  for (RequestId id = 1; id <= 3; ++id) {
    b.send(0, id, 50'000);
    if (b.plans() == 1) sent.push_back(b.serial);
  }
  REQUIRE(sent.size() == 2);
  CHECK(b.core.waiting() == 1);
  b.cancel(1, 3);
  CHECK(b.refused() == "unavailable client_gone");
  CHECK(b.core.waiting() == 0);
  for (const std::uint64_t serial : sent) {
    b.serial = serial;
    b.execute(2, {1, 2});
    CHECK(b.plans() == 0);
  }
}

TEST_CASE("cancel: a worker is told, and its refusal ends the request without a retry") {
  Gone b(two_workers());
  b.send(0, 1, 50'000);
  REQUIRE(b.plans() == 1);
  b.cancel(1, 1);
  CHECK(b.probe.sent<Cancel>() == std::vector<Cancel>{{b.serial}});
  CHECK(b.refused().empty());
  b.cancel(2, 1);
  CHECK(b.probe.effects.list.empty());
  b.refuse_at(3, b.node, RefusalKind::unavailable, "client_gone");
  CHECK(b.plans() == 0);
  CHECK(b.refused() == "unavailable client_gone");
}

TEST_CASE("cancel: a worker that is lost by a request counts against it although its client has gone") {
  Gone b(two_workers());
  for (const NodeId node : {1, 2}) b.beat(0, node, beat_of(5));
  b.send(0, 1, 50'000);
  REQUIRE(b.plans() == 1);
  b.cancel(1, 1);
  b.lose(2, b.node);
  CHECK(b.probe.sent<Suspect>().size() == 1);
  CHECK(b.plans() == 0);
  CHECK(b.refused() == "unavailable client_gone");
}

TEST_CASE("cancel: a request that runs is answered, and a write that has begun is completed") {
  Gone b;
  b.send(0, 1, 50'000);
  b.cancel(1, 1);
  b.execute(2, {1, 2});
  CHECK(b.replies() == 1);
  b.probe.receive(3, server, PutUser{.id = 2, .tenant = "t", .user = "ann", .tokens = {7}});
  const auto jobs = b.probe.started<Write>();
  REQUIRE(jobs.size() == 1);
  b.cancel(4, 2);
  CHECK(b.probe.effects.list.empty());
  b.probe.done(5, jobs[0].first, WriteResult{.version = 1});
  CHECK(b.probe.sent<Stored>().size() == 1);
}

}  // namespace router_cancel_test
}  // namespace troupe::router
