// Tests of the queues: the window, tenants' shares, immediate refusals, and requests whose worker
// goes away.
#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace {

// A single worker with one executor slot, which takes two plans and no more.
RouterConfig narrow_config(std::vector<NodeId> workers = {1}) {
  RouterConfig config = cluster_config(std::move(workers));
  config.window = {0};
  config.quantum = {100};
  config.budget_max = {100'000};
  return config;
}

struct Turns : RouterBench {
  explicit Turns(RouterConfig config = narrow_config()) : RouterBench(std::move(config)) {}

  // Sends a request up to a worker or its queue; returns the serial of its plan, or 0 if it waits.
  std::uint64_t ask(std::int64_t us, RequestId id, const std::string& tenant, std::int64_t budget = 50'000) {
    probe.receive(us, server,
                  RankRequest{id, tenant, "u" + std::to_string(id), {"a", "b"}, 0, "recompute", budget});
    const auto jobs = probe.started<FindFeatures>();
    if (jobs.empty()) return 0;
    probe.done(us, jobs[0].first, test_features());
    return sent();
  }
  std::uint64_t sent() const {
    const auto plans = probe.sent<Execute>();
    return plans.empty() ? 0 : plans.back().id;
  }
  // Answers a plan at the worker; returns the serial of the plan that is sent next.
  std::uint64_t answer_plan(std::int64_t us, std::uint64_t plan, NodeId at = 1) {
    serial = plan;
    execute_at(us, at);
    return sent();
  }
  Refusal refusal() const {
    REQUIRE(probe.sent<Refused>().size() == 1);
    return probe.sent<Refused>()[0].refusal;
  }
};

TEST_CASE("queue: a plan is sent at once while the worker has capacity, else it waits") {
  Turns b;
  const std::uint64_t first = b.ask(0, 1, "t");
  CHECK(first != 0);
  CHECK(b.probe.counted(Metric::requests_waiting) == 0);
  CHECK(b.ask(0, 2, "t") != 0);
  CHECK(b.ask(0, 3, "t") == 0);
  CHECK(b.core.waiting() == 1);
  CHECK(b.answer_plan(10, first) != 0);
  CHECK(b.replies() == 1);
  CHECK(b.core.waiting() == 0);
}

TEST_CASE("queue: a tenant with few requests goes before the backlog of another") {
  RouterConfig config = narrow_config();
  config.quantum = {30};
  Turns b(config);
  const std::uint64_t first = b.ask(0, 1, "flood");
  for (RequestId id = 2; id <= 20; ++id) b.ask(0, id, "flood");
  const std::uint64_t third = b.answer_plan(5, first);
  CHECK(b.ask(6, 50, "steady") == 0);
  const std::uint64_t steady = b.answer_plan(10, third);
  b.answer_plan(20, steady);
  CHECK(b.probe.sent<RankReply>().at(0).id == 50);
}

TEST_CASE("window: it holds the configured work per executor slot") {
  RouterConfig config = narrow_config();
  config.window = {100};  // plans of 33 each
  Turns b(config);
  Heartbeat two = beat_of(7);
  two.slots = 2;
  b.beat(0, 1, two);
  std::size_t sent = 0;
  for (RequestId id = 1; id <= 12; ++id) sent += b.ask(0, id, "t") != 0;
  CHECK(sent == 7);  // the seventh starts below 200
  CHECK(b.core.waiting() == 5);
}

TEST_CASE("tenant limits: a tenant at its request limit is refused, and the refusal names the limit") {
  RouterConfig config = narrow_config();
  config.tenants.requests_max = 3;
  Turns b(config);
  for (RequestId id = 1; id <= 3; ++id) b.ask(0, id, "flood");
  b.ask(0, 4, "flood");
  const Refusal refusal = b.refusal();
  CHECK(refusal.kind == RefusalKind::over_quota);
  CHECK(refusal.code == "tenant_overloaded");
  CHECK(refusal.what.find("tenant \"flood\" has 3 requests here, 1 of them wait") == 0);
  CHECK(refusal.expected.find("router.tenant_requests_max") != refusal.expected.npos);
  CHECK(refusal.retry_after_s == 1);
  CHECK(b.ask(0, 5, "steady") == 0);
  CHECK(b.core.waiting() == 2);
  CHECK(b.probe.counted(Metric::tenant_refused) == 0);
}

TEST_CASE("tenant limits: a tenant at its limit of predicted work is refused") {
  RouterConfig config = narrow_config();
  config.tenants.work_us_max = 60;
  Turns b(config);
  for (RequestId id = 1; id <= 4; ++id) b.ask(0, id, "flood");
  CHECK(b.core.waiting() == 2);
  b.ask(0, 5, "flood");
  CHECK(b.refusal().expected.find("router.tenant_work_max") != std::string::npos);
}

TEST_CASE("full router: the heaviest tenant's newest waiting request makes way for a lighter tenant") {
  RouterConfig config = narrow_config();
  config.in_flight_max = 5;
  Turns b(config);
  for (RequestId id = 1; id <= 5; ++id) b.ask(0, id, "flood");
  b.probe.receive(1, server, RankRequest{9, "steady", "ann", {"a", "b"}, 0, "recompute", 50'000});
  CHECK(b.probe.sent<Refused>().at(0).id == 5);
  CHECK(b.refusal().code == "tenant_overloaded");
  CHECK(b.probe.started<FindFeatures>().size() == 1);
  CHECK(b.core.check_bounds() == "");
  b.probe.receive(1, server, RankRequest{10, "flood", "ann", {"a", "b"}, 0, "recompute", 50'000});
  CHECK(b.refusal().code == "tenant_overloaded");  // its own requests do not make way for it
  CHECK(b.refusal().expected.find("router.requests_in_flight_max") != std::string::npos);
}

TEST_CASE("full router: no request makes way if the heaviest tenant has none waiting") {
  RouterConfig config = narrow_config();
  config.in_flight_max = 2;
  Turns b(config);
  for (RequestId id = 1; id <= 2; ++id) CHECK(b.ask(0, id, "flood") != 0);
  b.ask(1, 9, "steady");
  CHECK(b.refusal().code == "overloaded");
  CHECK(b.probe.sent<Refused>().at(0).id == 9);
  CHECK(b.core.check_bounds() == "");
}

TEST_CASE("full router: a tenant without requests is refused as unavailable, not for its own overload") {
  RouterConfig config = narrow_config();
  config.in_flight_max = 5;
  Turns b(config);
  // no tenant has more than one
  for (RequestId id = 1; id <= 5; ++id) b.ask(0, id, "t" + std::to_string(id));
  b.ask(0, 9, "steady");
  CHECK(b.refusal().kind == RefusalKind::unavailable);
  CHECK(b.refusal().code == "overloaded");
}

TEST_CASE(
    "tenant limits: a request too late behind its tenant's queue is refused; another tenant's is accepted") {
  Turns b;
  for (RequestId id = 1; id <= 20; ++id) b.ask(0, id, "flood");
  b.ask(0, 21, "flood", 400);
  const Refusal refusal = b.refusal();
  CHECK(refusal.kind == RefusalKind::unavailable);
  CHECK(refusal.what.find("tenant \"flood\" has 20 requests") != std::string::npos);
  CHECK(refusal.retry_after_s > 0);
  b.ask(0, 22, "steady", 400);
  CHECK(b.core.waiting() == 19);
}

TEST_CASE("tenant limits: a tenant whose own queue exceeds even the usual budget is overloaded") {
  RouterConfig config = narrow_config();
  config.budget = {400};
  Turns b(config);
  for (RequestId id = 1; id <= 20; ++id) b.ask(0, id, "flood");
  b.ask(0, 21, "flood", 400);
  CHECK(b.refusal().code == "tenant_overloaded");
  b.ask(0, 22, "steady", 400);
  CHECK(b.core.waiting() == 19);
}

TEST_CASE("tenant limits: a request too late even without its tenant's queue is refused as unavailable") {
  RouterConfig config = narrow_config();
  config.budget = {10};
  Turns b(config);
  for (RequestId id = 1; id <= 20; ++id) b.ask(0, id, "flood");
  RequestId id = 21;
  for (const char* tenant : {"steady", "flood"}) {
    b.ask(0, id++, tenant, 10);
    CHECK(b.refusal().kind == RefusalKind::unavailable);
    CHECK(b.refusal().code == "overloaded");
  }
}

TEST_CASE("queue: a request that waits until its deadline is answered then") {
  Turns b;
  for (RequestId id = 1; id <= 2; ++id) b.ask(0, id, "t", 90'000);
  b.ask(0, 3, "t", 5'000);
  CHECK(b.core.waiting() == 1);
  b.run_until(4'999);
  CHECK(b.refused() == "");
  b.run_until(5'000);
  CHECK(b.refused() == "deadline_exceeded deadline_exceeded");
  CHECK(b.core.waiting() == 0);
}

TEST_CASE("queue: requests for a lost or draining worker move to another without using an attempt") {
  for (const bool drains : {false, true}) {
    Turns b(narrow_config({1, 2}));
    Heartbeat slow = beat_of(7), fast = beat_of(8);
    slow.us_per_operation = 100;
    b.beat(0, 2, slow);  // so that all choose the first
    b.beat(0, 1, fast);
    std::uint64_t last = 0;
    for (RequestId id = 1; id <= 6; ++id) last = std::max(last, b.ask(0, id, "t"));
    REQUIRE(b.core.waiting() == 4);
    const std::uint64_t sent_before = b.core.attempts();
    fast.draining = true;
    drains ? b.beat(1, 1, fast) : b.lose(1, 1);
    CHECK(b.refused() == "");
    CHECK(b.core.attempts() > sent_before);
    CHECK(b.node == 2);
    CHECK(b.core.find_unfairness() == "");
    CHECK(b.core.check_bounds() == "");
  }
}

TEST_CASE("queue: a request that waited half of its time looks for another worker") {
  Turns b(narrow_config({1, 2}));
  Heartbeat busy = beat_of(7), free = beat_of(8);
  busy.operations_waiting = 40'000;
  b.beat(0, 2, busy);
  b.beat(0, 1, free);
  for (RequestId id = 1; id <= 2; ++id) b.ask(0, id, "t", 99'000);
  b.ask(0, 3, "t", 90'000);
  REQUIRE(b.core.waiting() == 1);
  for (std::int64_t us = 1'000; us < 45'000; us += 500) {
    b.beat(us, 1, free);
    b.beat(us, 2, beat_of(7));
  }
  b.run_until(45'000);
  CHECK(b.core.waiting() == 0);
  CHECK(b.node == 2);
}

TEST_CASE("status: names the tenants with most waiting") {
  RouterConfig config = narrow_config();
  config.tenants.weights = {{"flood", 0.5}};
  Turns b(config);
  for (RequestId id = 1; id <= 4; ++id) b.ask(0, id, "flood");
  b.probe.receive(1, server, StatusRequest{77});
  std::string waiting, tenant;
  const StatusReply status = b.probe.sent<StatusReply>().at(0);
  for (const StatusField& field : status.fields) {
    if (field.name == "requests_waiting") waiting = field.value;
    if (field.name == "tenant") tenant = field.value;
  }
  CHECK(waiting == "2");
  CHECK(tenant == "\"flood\": 4 requests, 2 waiting with 0 ms of work, weight 0.5");
}

}  // namespace
}  // namespace troupe::router
