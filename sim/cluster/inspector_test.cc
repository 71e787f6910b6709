// The inspector's judgement of a real, small cluster: each check is shown a state that it must not accept,
// and one beside it that it must. What its cores do wrong cannot be made here: bounds, retries and what a
// worker obeys are shown by mutants (tests/sim), and by events that only the inspector believes.
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
  void serve(std::int64_t us) {  // clients ask all along
    clients.start(cluster.now(), cluster.now() + Duration{us});
    run(us);
  }
  // Looks as often as a run does.
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
  void tell(NodeId from, Role role, const Message& message) {  // the KV-cache worker
    cluster.host().post_from({from, role}, {worker_node, Role::kv_worker}, message);
    run(1'000);
  }
};

}  // namespace

TEST_SUITE("inspector") {
  TEST_CASE("a healthy cluster keeps all promises, while it serves and at rest") {
    InspectorBench b;
    b.clients.start({100'000}, {2'000'000});
    b.watch(2'000'000);
    b.run(b.inspector.quiet().us);
    b.inspector.look();
    b.inspector.judge_end();
    for (const Violation& violation : b.violations.kept()) CHECK(violation.what == "");
    CHECK(b.clients.tally().answered > 20);
  }

  TEST_CASE("a bit that flips is found within two rounds and a second, or it is told, once") {
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
      CHECK(b.found(2, "has flipped, and was not found") == !scrubs);
      b.watch(1'000'000);
      CHECK(b.violations.count() == (scrubs ? 0 : 1));
    }
  }

  TEST_CASE(
      "no time passes for a flipped bit while its node is stopped, and none for one that flipped back") {
    Scenario s = small();
    s.scrub_interval = {0};
    InspectorBench b(s);
    b.serve(1'000'000);
    b.run(500'000);
    const PoolBlock& block = b.some_block();
    b.cluster.on_bit_flipped(worker_node, block.generation);  // and back at once
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

  TEST_CASE("who obeys a leader that was succeeded is found; obeying the present one is right") {
    for (const bool succeeded : {false, true}) {
      CAPTURE(succeeded);
      InspectorBench b;
      b.serve(1'000'000);
      b.run(500'000);
      const PoolBlock& block = b.some_block();
      const std::string owner = block.owner;
      const SegmentKind kind = block.kind;
      b.tell(meta_node, Role::cache_meta, LeaderBeat{50});
      // A word that the worker rightly ignores, for it is no cache-meta's; the inspector believes it.
      if (succeeded) b.tell(router_node, Role::router, LeaderBeat{70});
      b.tell(meta_node, Role::cache_meta, Forget{kind, owner, 60});
      CHECK(b.cluster.node(worker_node).kv_worker->pool().names_of(kind, owner).empty());
      CHECK(b.found(5, "obeyed who does not lead") == succeeded);
      CHECK(b.violations.count() == succeeded);
    }
  }

  TEST_CASE("a command that was not obeyed breaks nothing") {
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

  TEST_CASE("what is under way when all should be at rest is left over") {
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

  TEST_CASE("pins of another node that are never let go are left over") {
    InspectorBench b;
    b.serve(1'000'000);
    b.run(b.inspector.quiet().us);
    const PoolBlock& block = b.some_block();
    AcquireBlocks ask{77, 1'000, {{block.name, block.kind, block.owner, block.tokens}}};
    ask.read_only = true;
    b.tell(stranger, Role::kv_worker, ask);
    b.inspector.judge_end();
    CHECK(b.found(3, "1 remote reads of node 3 are left over"));
    CHECK(b.violations.count() == 2);  // and the pin
    b.tell(stranger, Role::kv_worker, ReleaseBlocks{77, {}});
    b.inspector.judge_end();
    CHECK(b.violations.count() == 2);
  }

  TEST_CASE("a model that is still to come at rest was forgotten") {
    using Told = std::pair<const char*, std::uint32_t>;
    for (const auto& [next, share] :
         {Told{"", Versions::all_users}, Told{"m2", Versions::all_users}, Told{"m2", 500}}) {
      InspectorBench b;
      b.run(1'000'000);
      b.cluster.coordination().faults().slowness = 1e9;
      Coordinate question{ReadKey{"versions"}};
      const auto present =
          std::get<Coordinated>(b.cluster.coordination().ask(b.cluster.now(), router_node, question));
      question.what =
          WriteKey{"versions", router::versions_text({0, "m1", "c1", next, "", share}), present.revision};
      REQUIRE(std::get<Coordinated>(b.cluster.coordination().ask(b.cluster.now(), router_node, question)).ok);
      b.inspector.judge_end();
      const bool is_to_come = next[0] != '\0' && share == Versions::all_users;
      CHECK(b.found(4, "is still to come at rest") == is_to_come);
    }
  }

  TEST_CASE("an index that does not know a block, or knows one too many, does not agree with its worker") {
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

  TEST_CASE("somebody leads at the end") {
    InspectorBench b;
    b.run(1'000'000);
    b.cluster.kill(meta_node);
    b.inspector.judge_end();
    CHECK(b.found(8, "no cache-meta leads at the end"));
  }

  TEST_CASE(
      "with a slow node the answers take no longer than twice as long; where too few came nothing is said") {
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

  TEST_CASE("what a router counts as sent is what it sent") {
    InspectorBench b;
    b.serve(1'000'000);
    b.inspector.look();
    CHECK(b.violations.count() == 0);
    CHECK(b.cluster.node(router_node).router->attempts() > 10);
  }
}
