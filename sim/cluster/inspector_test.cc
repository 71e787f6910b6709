// Tests of the inspector on a real, small cluster. Each check gets a state that it must reject and a
// similar one that it must accept. Faults inside cores cannot be produced here: mutants (tests/sim) cover
// bounds, retries and obedience, as do events that only the inspector believes.
#include "sim/cluster/inspector.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "router/fleet/versions.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr NodeId router_node = 1, meta_node = 2, worker_node = 3, stranger = 99;

Scenario small() {
  Scenario s;
  s.link.latency_min = s.link.latency_max = {100};
  s.precompute = false;
  s.policy = router::policy("item");
  return s;
}

struct InspectorBench {
  Violations violations;
  Cluster cluster;
  Clients clients{cluster, violations};
  Inspector inspector{cluster, clients, violations};

  explicit InspectorBench(const Scenario& scenario = small()) : cluster(scenario, violations) {
    cluster.start();
  }
  void run(std::int64_t us) { cluster.host().run_until(cluster.now() + Duration{us}); }
  void serve(std::int64_t us) {  // with clients sending requests
    clients.start(cluster.now(), cluster.now() + Duration{us});
    run(us);
  }
  // Checks as often as a run does.
  void watch(std::int64_t us) {
    for (std::int64_t left = us; left > 0; left -= 100'000)
      run(std::min<std::int64_t>(left, 100'000)), inspector.look();
  }
  bool found(int promise, const std::string& words) const {
    return std::ranges::any_of(violations.kept(), [&](const Violation& violation) {
      return violation.promise == promise && violation.what.find(words) != std::string::npos;
    });
  }
  const PoolBlock& some_block() {
    const auto blocks = cluster.node(worker_node).kv_worker->pool().ready_after(0, 1'000);
    const auto idle = std::ranges::find(blocks, 0U, &PoolBlock::pins);
    REQUIRE(idle != blocks.end());
    return **idle;
  }
  void tell(NodeId from, Role role, const Message& message) {  // sends a message to the KV-cache worker
    cluster.host().post_from({from, role}, {worker_node, Role::kv_worker}, message);
    run(1'000);
  }
};

}  // namespace

TEST_SUITE("inspector") {
  TEST_CASE("inspector: a healthy cluster keeps all promises, while serving and at the end") {
    InspectorBench b;
    b.clients.start({100'000}, {2'000'000});
    b.watch(2'000'000);
    b.run(b.inspector.quiet().us);
    b.inspector.look();
    b.inspector.judge_end();
    for (const Violation& violation : b.violations.kept()) CHECK(violation.what == "");
    CHECK(b.clients.tally().answered > 20);
  }

  TEST_CASE("inspector: a flipped bit not found within two rounds and a second is reported once") {
    for (const bool scrubs : {true, false}) {
      CAPTURE(scrubs);
      Scenario s = small();
      s.scrub_interval = {scrubs ? 1'000'000 : 0};
      s.check_reads = 0;
      InspectorBench b(s);
      b.serve(1'000'000);
      b.run(500'000);
      const PoolBlock& block = b.some_block();
      b.cluster.node(worker_node).pages->strike(block.pages[0], 7);
      b.cluster.on_bit_flipped(worker_node, block.generation);
      b.watch(scrubs ? 3'500'000 : 1'000'000);
      CHECK(b.violations.count() == 0);
      b.watch(300'000);
      CHECK(b.found(2, "has flipped and was not found") == !scrubs);
      b.watch(1'000'000);
      CHECK(b.violations.count() == (scrubs ? 0 : 1));
    }
  }

  TEST_CASE("inspector: a flipped bit is not judged while its node is paused, or after it flipped back") {
    Scenario s = small();
    s.scrub_interval = {0};
    InspectorBench b(s);
    b.serve(1'000'000);
    b.run(500'000);
    const PoolBlock& block = b.some_block();
    b.cluster.on_bit_flipped(worker_node, block.generation);  // flipped back immediately
    b.watch(2'000'000);
    CHECK(b.violations.count() == 0);
    const std::uint64_t generation = b.some_block().generation;
    b.cluster.node(worker_node).pages->strike(b.some_block().pages[0], 7);
    b.cluster.on_bit_flipped(worker_node, generation);
    b.cluster.pause(worker_node);
    b.watch(3'000'000);
    CHECK(b.violations.count() == 0);
    b.cluster.kill(worker_node);  // its memory is gone
    b.watch(3'000'000);
    CHECK(b.violations.count() == 0);
  }

  TEST_CASE("inspector: obeying a former leader is reported; obeying the current one is accepted") {
    for (const bool succeeded : {false, true}) {
      CAPTURE(succeeded);
      InspectorBench b;
      b.serve(1'000'000);
      b.run(500'000);
      const PoolBlock& block = b.some_block();
      const std::string owner = block.owner;
      const SegmentKind kind = block.kind;
      b.tell(meta_node, Role::cache_meta, LeaderBeat{50});
      // The worker ignores this message, which is not from a cache-meta; the inspector believes it.
      if (succeeded) b.tell(router_node, Role::router, LeaderBeat{70});
      b.tell(meta_node, Role::cache_meta, Forget{kind, owner, 60});
      CHECK(b.cluster.node(worker_node).kv_worker->pool().names_of(kind, owner).empty());
      CHECK(b.found(5, "obeyed a node that does not lead") == succeeded);
      CHECK(b.violations.count() == succeeded);
    }
  }

  TEST_CASE("inspector: a command that was not obeyed is accepted") {
    InspectorBench b;
    b.serve(1'000'000);
    b.run(500'000);
    const std::string owner = b.some_block().owner;
    const SegmentKind kind = b.some_block().kind;
    b.tell(meta_node, Role::cache_meta, LeaderBeat{50});
    b.tell(meta_node, Role::cache_meta, Forget{kind, owner, 40});
    CHECK_FALSE(b.cluster.node(worker_node).kv_worker->pool().names_of(kind, owner).empty());
    CHECK(b.violations.count() == 0);
  }

  TEST_CASE("inspector: work in flight at the end is reported as left over") {
    InspectorBench b;
    b.serve(1'000'000);
    for (auto& [id, node] : b.cluster.nodes()) node.device.hung = true;
    b.clients.start(b.cluster.now(), b.cluster.now() + Duration{200'000});
    b.run(200'000);
    b.inspector.judge_end();
    CHECK(b.found(1, "requests have no outcome at the end"));
    CHECK(b.found(3, "requests of node 1 are left over"));
    CHECK(b.found(3, "plans of node"));
    CHECK(b.found(3, "pinned blocks of node"));
  }

  TEST_CASE("inspector: remote pins that are never released are reported as left over") {
    InspectorBench b;
    b.serve(1'000'000);
    b.run(b.inspector.quiet().us);
    const PoolBlock& block = b.some_block();
    AcquireBlocks ask{77, 1'000, {{block.name, block.kind, block.owner, block.tokens}}};
    ask.read_only = true;
    b.tell(stranger, Role::kv_worker, ask);
    b.inspector.judge_end();
    CHECK(b.found(3, "1 remote reads of node 3 are left over"));
    CHECK(b.violations.count() == 2);  // the pin too
    b.tell(stranger, Role::kv_worker, ReleaseBlocks{77, {}});
    b.inspector.judge_end();
    CHECK(b.violations.count() == 2);
  }

  TEST_CASE("inspector: a model that is still pending at the end is reported") {
    using Report = std::pair<const char*, std::uint32_t>;
    for (const auto& [next, share] :
         {Report{"", Versions::all_users}, Report{"m2", Versions::all_users}, Report{"m2", 500}}) {
      InspectorBench b;
      b.run(1'000'000);
      b.cluster.coordination().faults().slowness = 1e9;
      Coordinate question{ReadKey{"versions"}};
      const auto present =
          std::get<CoordinationReply>(b.cluster.coordination().ask(b.cluster.now(), router_node, question));
      question.what =
          WriteKey{"versions", router::versions_text({0, "m1", "c1", next, "", share}), present.revision};
      REQUIRE(
          std::get<CoordinationReply>(b.cluster.coordination().ask(b.cluster.now(), router_node, question))
              .ok);
      b.inspector.judge_end();
      const bool is_to_come = next[0] != '\0' && share == Versions::all_users;
      CHECK(b.found(4, "is still pending at the end") == is_to_come);
    }
  }

  TEST_CASE("inspector: an index with a missing or additional block is reported") {
    InspectorBench cut;
    cut.run(500'000);
    cut.cluster.host().network().cut(worker_node, meta_node);
    cut.serve(500'000);
    cut.run(cut.inspector.quiet().us);
    cut.inspector.judge_end();
    CHECK(cut.found(8, "the index knows 0 of the"));
    InspectorBench more;
    more.serve(1'000'000);
    more.run(more.inspector.quiet().us);
    more.inspector.judge_end();
    CHECK(more.violations.count() == 0);
    more.cluster.host().network().cut(worker_node, meta_node);
    const std::string owner = more.some_block().owner;
    more.cluster.host().post({worker_node, Role::kv_worker}, {meta_node, Role::cache_meta}, LeaderBeat{50});
    more.cluster.host().post({worker_node, Role::kv_worker}, {meta_node, Role::cache_meta},
                             Forget{more.some_block().kind, owner, 60});
    more.run(10'000);
    more.inspector.judge_end();
    CHECK(more.found(8, "the index knows"));
  }

  TEST_CASE("inspector: a missing leader at the end is reported") {
    InspectorBench b;
    b.run(1'000'000);
    b.cluster.kill(meta_node);
    b.inspector.judge_end();
    CHECK(b.found(8, "no cache-meta leads at the end"));
  }

  TEST_CASE("inspector: a slow node that doubles latency is reported, unless there are too few answers") {
    for (const double slower : {1.0, 40.0}) {
      CAPTURE(slower);
      Scenario s = small();
      s.workers = 3, s.drill = true;
      s.safety = {8'000'000}, s.recovery = {1'000'000}, s.requests_per_s = 60;
      s.faults = {{FaultKind::slow_node, {1'000'000}, {7'000'000}, worker_node}};
      for (const bool enough : {true, false}) {
        InspectorBench b(s);
        b.clients.start({100'000}, enough ? Instant{13'000'000} : Instant{3'500'000});
        b.cluster.host().at({1'000'000}, [&] {
          for (auto& [id, node] : b.cluster.nodes()) node.device.slowness.factor = slower;
        });
        b.cluster.host().at({8'000'000}, [&] {
          for (auto& [id, node] : b.cluster.nodes()) node.device.slowness.factor = 1;
        });
        b.run(13'000'000 + b.inspector.quiet().us);
        b.inspector.judge_end();
        CHECK(b.found(11, "with a slow node 95 % of the answers") == (enough && slower > 1));
        CHECK(b.clients.tally().unjudged == !enough);
      }
    }
  }

  TEST_CASE("inspector: a router's wrong count of sent plans is reported") {
    InspectorBench b;
    b.serve(1'000'000);
    b.inspector.look();
    CHECK(b.violations.count() == 0);
    CHECK(b.cluster.node(router_node).router->attempts() > 10);
  }
}
