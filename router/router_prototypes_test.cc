// Tests of plans with prototypes on workers that have another file of them, or none.
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_prototypes_test {

constexpr const char* named = "all_blocks+30:tail:mean:layer2:prototypes";

RouterConfig config_of(std::vector<NodeId> workers) {
  RouterConfig config = cluster_config(std::move(workers));
  config.form.arrangements = {Arrangement::causal};
  config.form.interchangeable = {};
  config.form.prototype_set = std::make_shared<EvenTokens>();
  config.limits.approximate = 1;
  config.costs = {.token_operations = 1, .layers = 32};
  config.budget = {100'000};
  config.budget_max = {100'000};
  return config;
}

// A request of a long history, of which no block is held: prototypes are cheapest by far.
struct Bench : RouterBench {
  explicit Bench(std::vector<NodeId> workers = {1, 2, 3}) : RouterBench(config_of(std::move(workers))) {
    hear(0);
  }

  void hear(std::int64_t us, Incarnation process = 5) {
    for (const NodeId each : core.workers().nodes()) beat(us, each, beat_of(process));
  }
  // Sends a request up to a worker; returns which one.
  NodeId ask(std::int64_t us, RequestId id, const std::string& policy) {
    rank(us, id, policy);
    find(us, test_features(40));
    index(us, IndexAnswer{{}, std::vector<std::uint8_t>(asked.blocks.size()), {}});
    REQUIRE(plans() == 1);
    segments = plan().plan.segments.size();
    return node;
  }
  // The worker refuses the last plan as one that it cannot run.
  void refuse(std::int64_t us, NodeId at) {
    refuse_at(us, at, RefusalKind::unprocessable, "bad_plan");
    if (plans() == 1) segments = plan().plan.segments.size();
  }
  bool has_prototypes() const { return !plan().plan.repair.prototypes.empty(); }
  // The last plan's worker answers; returns the reply's plan.
  std::string answered(std::int64_t us) {
    answer_at(us, node, answer({1, 2}, std::vector<std::uint8_t>(segments)));
    REQUIRE(replies() == 1);
    return std::string(probe.sent<RankReply>()[0].plan);
  }

  std::size_t segments = 0;  // of the last plan
};

TEST_CASE("prototypes: the planner answers without them where a worker refuses them, even the only one") {
  for (const std::vector<NodeId>& workers : {std::vector<NodeId>{1}, std::vector<NodeId>{1, 2, 3}}) {
    Bench b(workers);
    const NodeId first = b.ask(1, 1, "planner");
    REQUIRE(b.has_prototypes());
    const RequestId before = b.plan().id;
    b.refuse(2, first);
    CHECK(b.refused() == "");
    REQUIRE(b.plans() == 1);
    CHECK_FALSE(b.has_prototypes());
    CHECK(b.plan().id != before);  // a worker ignores an id that it has refused
    CHECK(b.core.retries() == 0);
    // Late answers to the first plan are ignored.
    const RequestId now = b.serial;
    b.serial = before;
    b.refuse(3, first);
    CHECK(b.refused() == "");
    CHECK(b.plans() == 0);
    b.serial = now;
    CHECK(b.answered(4) != "prototypes");
  }
}

TEST_CASE("prototypes: a worker that refused them is offered none for a minute") {
  Bench b({1});
  b.ask(1, 1, "planner");
  b.refuse(2, 1);
  b.answered(3);
  for (const std::int64_t us : {4, 59'000'000, 60'000'002}) {
    CAPTURE(us);
    b.hear(us);
    b.probe.receive(us, meta, LeaderBeat{1});
    b.ask(us, static_cast<RequestId>(us), "planner");
    CHECK(b.has_prototypes() == (us > 60'000'000));
    b.answered(us);
  }
}

TEST_CASE("prototypes: a worker that refused them is offered them again once it has restarted") {
  Bench b({1});
  b.ask(1, 1, "planner");
  b.refuse(2, 1);
  b.answered(3);
  b.hear(4, 6);
  b.ask(5, 2, "planner");
  CHECK(b.has_prototypes());
}

TEST_CASE("prototypes: the planner uses them on the workers that have them") {
  Bench b;
  const NodeId without = b.ask(1, 1, "planner");
  b.refuse(2, without);
  b.answered(3);
  CHECK(b.ask(4, 2, "planner") != without);
  CHECK(b.has_prototypes());
  CHECK(b.answered(5) == "prototypes");
}

TEST_CASE("prototypes: a request that names them is sent to a worker that has them") {
  Bench b;
  const NodeId without = b.ask(1, 1, named);
  REQUIRE(b.has_prototypes());
  const Execute before = b.plan();
  b.refuse(2, without);
  REQUIRE(b.plans() == 1);
  CHECK(b.node != without);
  CHECK(b.plan().plan == before.plan);
  CHECK(b.core.retries() == 0);
  CHECK(b.answered(3) == "all_blocks");
  CHECK(b.ask(4, 2, named) != without);  // which is idle, and the user's home
}

TEST_CASE("prototypes: a request that names them is unavailable where no worker has them") {
  Bench b;
  std::set<NodeId> asked_nodes{b.ask(1, 1, named)};
  for (std::int64_t us = 2; us < 4; ++us) {
    b.refuse(us, b.node);
    REQUIRE(b.plans() == 1);
    CHECK(b.has_prototypes());
    asked_nodes.insert(b.node);
  }
  CHECK(asked_nodes.size() == 3);
  b.refuse(4, b.node);
  CHECK(b.refused() == "unavailable wrong_prototypes");
  // Workers that refused are asked again where no others are left.
  b.ask(5, 2, named);
  CHECK(b.has_prototypes());
}

TEST_CASE("prototypes: a bad plan without them is refused as ever") {
  Bench b;
  b.ask(1, 1, "causal");
  b.refuse(2, b.node);
  CHECK(b.refused() == "unprocessable bad_plan");
}

TEST_CASE("prototypes: while a late attempt may be answered, the plan stays") {
  Bench b;
  const NodeId late = b.ask(1, 1, "planner");
  std::int64_t us = 0;
  do {
    b.hear(us += 1'000);
    b.run_until(us);
  } while (b.plans() == 0 && us < 100'000);
  REQUIRE(b.plans() == 1);
  REQUIRE(b.node != late);
  b.refuse(us, b.node);
  REQUIRE(b.plans() == 1);
  CHECK(b.has_prototypes());
  b.refuse(us, b.node);
  CHECK(b.plans() == 0);
  CHECK(b.refused() == "");
  b.refuse(us, late);
  REQUIRE(b.plans() == 1);
  CHECK_FALSE(b.has_prototypes());
  CHECK(b.core.retries() == 1);
}

}  // namespace router_prototypes_test
}  // namespace troupe::router
