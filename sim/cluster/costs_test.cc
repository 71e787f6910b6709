// Tests of the judge of costs. Each check gets something that it must reject and something similar that it
// must accept. Most inputs are made up and shown to the judge alone; the pools and tables are those of a
// real cluster. Requests that wait for a block nobody writes need a faulty core: see the mutant
// drop_waiters.
#include "sim/cluster/costs.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/cluster/clients.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr NodeId asker = 1, here = 3, there = 4;
constexpr Address kv{here, Role::kv_worker}, compute{here, Role::inference_worker},
    server_actor{asker, Role::router};

Scenario costly(const char* policy, std::uint32_t pages) {
  Scenario s;
  s.policy = router::policy(policy);
  s.precompute = false;
  s.pages = pages;
  return s;
}

struct CostBench {
  Violations violations;
  Cluster cluster;
  Clients clients{cluster, violations};
  Costs costs{cluster, violations};

  explicit CostBench(const char* policy = "user", std::uint32_t pages = 4'000)
      : cluster(costly(policy, pages), violations) {
    cluster.host().watch_sends([this](Instant, Address from, Address to, const Message& message) {
      costs.on_send(from, to, message);
    });
    cluster.host().watch_events(
        [this](Instant, Address to, const Event& event) { costs.on_event(to, event); });
    cluster.start();
    clients.start({100'000}, {1'500'000});
    run(2'000'000);
    costs.look();
    for (const Violation& violation : violations.kept()) CHECK(violation.what == "");
  }
  void run(std::int64_t us) { cluster.host().run_until(cluster.now() + Duration{us}); }
  void hear(Address to, Address from, Message message) {
    costs.on_event(to, Received{from, std::move(message)});
  }
  const PagePool& pool() { return cluster.node(here).kv_worker->pool(); }
  std::vector<const PoolBlock*> blocks(SegmentKind kind) {
    auto found = pool().ready_after(0, 1'000);
    std::erase_if(found, [&](const PoolBlock* block) { return block->kind != kind || block->pins > 0; });
    REQUIRE(found.size() > 1);
    return found;
  }
  void ask(const std::vector<BlockWant>& wants, RequestId id = 900, bool keep_hotter = false) {
    AcquireBlocks ask{id, 0, wants};
    ask.retention.keep_hotter = keep_hotter;
    hear(kv, compute, ask);
  }
  void evict(const PoolBlock& block) {
    static std::uint64_t sequence = 1'000'000;
    costs.on_send(kv, {2, Role::cache_meta},
                  CacheChanges{.sequence = ++sequence, .removed = {{block.name, block.generation}}});
  }
  // True if the judge has reported this; forgets it.
  bool says(const std::string& words) {
    const bool said = std::ranges::any_of(violations.kept(), [&](const Violation& violation) {
      return violation.promise == 20 && violation.what.find(words) != std::string::npos;
    });
    violations = Violations({}, 1'000);
    return said;
  }
};

BlockWant want_of(const PoolBlock& block) { return {block.name, block.kind, block.owner, block.tokens}; }

Execute plan_of(RequestId id, const PoolBlock& block) {
  Execute execute{.id = id, .budget_us = 1'000'000, .model_version = "m1"};
  execute.plan.segments = {{SegmentKind::system, std::vector<Token>(4, 1)},
                           {block.kind, std::vector<Token>(block.tokens, 2)}};
  execute.blocks = {{}, {block.name, block.owner}};
  return execute;
}

}  // namespace

TEST_SUITE("costs") {
  TEST_CASE("costs: a healthy cluster wastes nothing, whatever its policy") {
    for (const char* policy : {"recompute", "user", "item", "bat", "planner"})
      CHECK(CostBench(policy, 200).violations.count() == 0);
  }

  TEST_CASE("costs: a reply with wrong token counts is reported") {
    CostBench b;
    const Execute plan = plan_of(77, *b.blocks(SegmentKind::user)[0]);
    const auto tokens = static_cast<std::uint32_t>(plan.plan.segments[1].tokens.size());
    for (const std::uint32_t reused : {tokens, tokens - 1}) {
      b.costs.on_send(server_actor, compute, plan);
      b.hear(server_actor, compute, Executed{.id = 77, .reused = {0, 1}});
      RankReply reply{
          .tokens_total = 4 + tokens, .tokens_computed = 4 + tokens - reused, .tokens_reused = reused};
      b.costs.on_send(server_actor, {asker, Role::server}, reply);
      CHECK(b.says("tokens computed and") == (reused != tokens));
      b.costs.on_send(server_actor, {asker, Role::server}, RankReply{});  // a reply to another request
      CHECK_FALSE(b.says(""));
    }
  }

  TEST_CASE(
      "costs: setting a reported split again is reported; a later one or another process's is accepted") {
    CostBench b;
    const Address agent{here, Role::allocator};
    b.hear(agent, kv, PoolReport{.incarnation = 5, .epoch = 2});
    b.costs.on_send(agent, kv, SetSplit{.incarnation = 5, .epoch = 3});
    b.costs.on_send(agent, kv, SetSplit{.incarnation = 6, .epoch = 2});
    CHECK_FALSE(b.says(""));
    b.costs.on_send(agent, kv, SetSplit{.incarnation = 5, .epoch = 2});
    CHECK(b.says("sets a split that the worker has already reported"));
  }

  TEST_CASE("costs: requesting a block that the worker has, or one block twice, is reported") {
    CostBench b;
    const Address far{there, Role::kv_worker};
    const auto ask_far = [&](const BlockWant& want) {
      AcquireBlocks ask{1, 100, {want}};
      ask.read_only = true;
      b.costs.on_send(kv, far, ask);
    };
    ask_far(want_of(*b.blocks(SegmentKind::user)[0]));
    CHECK(b.says("requests a block that it has from another node"));
    BlockWant fresh{{}, SegmentKind::user, "somebody", 4};
    fresh.name.bytes[3] = 9;
    b.cluster.host().post_from(compute, kv, AcquireBlocks{9'000'000'000'000, 100'000, {fresh}});
    for (int i = 0; i < 100 && !b.pool().find(fresh.name); ++i) b.run(1);  // it is returned soon
    REQUIRE(b.pool().find(fresh.name));
    ask_far(fresh);
    CHECK_FALSE(b.says(""));
    ask_far(fresh);
    CHECK(b.says("requests one block twice"));
  }

  TEST_CASE("costs: pulling more than was granted is reported") {
    CostBench b;
    PullBlocks pull{there, b.cluster.host().incarnation(there), 1'000'000, {}};
    pull.blocks.push_back({.tokens = 8, .from = {0, 1}, .to = {2, 3}});
    BlocksAcquired granted{.grants = {{Grant::read, 1, 1, {0, 1}}}};
    b.hear(kv, {there, Role::kv_worker}, granted);
    b.cluster.node(here).store->begin(b.cluster.now(), pull, 7);
    b.costs.look();
    CHECK_FALSE(b.says(""));
    for (int i = 0; i < 5'000; ++i) b.cluster.node(here).store->begin(b.cluster.now(), pull, 7);
    b.costs.look();
    CHECK(b.says("bytes; it was granted"));
  }

  TEST_CASE(
      "costs: evictions without need, out of order, or of blocks that the same request needs are reported") {
    CostBench b;
    auto users = b.blocks(SegmentKind::user);
    const PoolBlock &oldest = *users.front(), &other = *users[1];
    for (const PoolBlock* block : users) {  // one after the other
      if (block == &oldest) continue;
      b.ask({want_of(*block)}, 901);
      b.hear(kv, compute, ReleaseBlocks{901, {}});
    }
    b.says("");
    b.ask({});
    b.evict(oldest);
    CHECK(b.says("are free for any block"));  // the pool is not full
    b.ask({});
    b.evict(*users.back());
    CHECK(b.says("was used after one that stays"));
    b.ask({want_of(other)});
    b.evict(other);
    CHECK(b.says("that the same request needs"));
    CostBench forgotten;
    forgotten.hear(kv, {2, Role::cache_meta}, Forget{});  // blocks removed by Forget were not evicted
    forgotten.evict(*forgotten.blocks(SegmentKind::user).back());
    CHECK_FALSE(forgotten.says(""));
  }

  TEST_CASE("costs: blocks that another node may still read, or read until its lease ended, may stay") {
    for (const bool read_elsewhere : {true, false}) {
      CAPTURE(read_elsewhere);
      CostBench b;
      auto users = b.blocks(SegmentKind::user);
      const PoolBlock& last = *users.back();
      users.pop_back();
      AcquireBlocks far{950, 0, {}};  // its end is not reported
      far.read_only = true;
      for (const PoolBlock* block : users) far.wants.push_back(want_of(*block));
      if (read_elsewhere) b.hear(kv, {there, Role::kv_worker}, far);
      b.ask(far.wants, 901);  // read here too, and released
      b.hear(kv, compute, ReleaseBlocks{901, {}});
      b.ask({want_of(last)}, 902);
      b.hear(kv, compute, ReleaseBlocks{902, {}});
      b.says("");
      b.ask({});
      b.evict(last);
      CHECK(b.says("was used after one that stays") == !read_elsewhere);
    }
  }

  TEST_CASE("costs: a needed eviction of the oldest block is accepted") {
    CostBench b;
    b.ask({}, 900, true);  // all areas are one
    const auto users = b.blocks(SegmentKind::user);
    b.evict(*users.front());
    CHECK_FALSE(b.says("was used after one that stays"));
  }

  TEST_CASE("costs: a popular block with a low estimate is reported") {
    CostBench b;
    BlockWant hot{{}, SegmentKind::item, "hot", 4};
    hot.name.bytes[3] = 9;
    for (int i = 0; i < 8; ++i) b.ask({hot}, 900, true);
    CHECK_FALSE(b.says(""));
    b.ask({hot}, 900, true);  // the worker itself has not got the requests
    CHECK(b.says("undercounts a block requested 8 times: it counts 0"));
  }

  TEST_CASE("costs: computing a block that was ready is reported") {
    CostBench b;
    const PoolBlock& block = *b.blocks(SegmentKind::user)[0];
    for (const std::uint8_t reused : {1, 0}) {
      b.hear(compute, server_actor, plan_of(77, block));
      b.costs.on_send(compute, server_actor, Executed{.id = 77, .reused = {0, reused}});
      b.run(2'000);
      CHECK(b.says("although its block was ready") == (reused == 0));
    }
    b.hear(compute, server_actor, plan_of(78, block));
    b.costs.on_send(compute, server_actor, Executed{.id = 78, .reused = {0, 0}});
    b.cluster.host().post_from({2, Role::cache_meta}, kv, LeaderBeat{90});
    b.cluster.host().post_from({2, Role::cache_meta}, kv, Forget{block.kind, block.owner, 91});
    b.run(2'000);  // the block is gone meanwhile
    CHECK_FALSE(b.says(""));
  }

  TEST_CASE("costs: a plan without the location of its blocks is reported") {
    CostBench b;
    const PoolBlock& block = *b.blocks(SegmentKind::user)[0];
    RequestId id = 80;
    struct Row {
      NodeId to, at;
      bool forgotten, late = false;  // the index answers after the request went on without it
    };
    for (const Row& row :
         {Row{here, 0, true}, {here, there, false}, {there, 0, false}, {here, 0, false, true}}) {
      ++id;
      b.costs.on_send(server_actor, {2, Role::cache_meta},
                      LookupBlocks{.id = id, .blocks = {{block.name, block.kind, 4}}});
      if (row.late)
        b.costs.on_event(server_actor, TimerFired{router::timer_of(id, router::TimerKind::lookup)});
      b.hear(server_actor, {2, Role::cache_meta}, BlocksFound{.id = id, .counts = {1}, .holders = {there}});
      Execute plan = plan_of(id, block);
      plan.blocks[1].at = row.at;
      b.costs.on_send(server_actor, {row.to, Role::inference_worker}, plan);
      CHECK(b.says("where a block is to be had") == row.forgotten);
    }
  }

  TEST_CASE(
      "costs: a plan not sent to the idle node with its blocks is reported, unless it is busy or draining") {
    CostBench b;
    PoolBlock block = *b.blocks(SegmentKind::user)[0];
    block.kind = SegmentKind::item;  // a user block may have to go to the user's home
    block.tokens = 100;
    RequestId id = 70;
    const router::WorkerTable& table = b.cluster.node(asker).router->workers();
    const NodeId holder = table.slowness(here) < table.slowness(there) ? here : there,
                 other = here + there - holder;
    struct Row {
      NodeId to;
      std::uint32_t busy;
      bool draining, waited, in_vain;
    };
    for (const Row& row : {Row{holder, 0, false, false, false},
                           {other, 1, false, false, false},
                           {other, 0, true, false, false},
                           {other, 0, false, false, true},
                           {other, 0, false, true, false}}) {
      CAPTURE(row.to);
      CAPTURE(row.busy);
      ++id;
      b.costs.on_send(server_actor, {2, Role::cache_meta},
                      LookupBlocks{.id = id, .blocks = {{block.name, block.kind, 100}}});
      b.hear(server_actor, {2, Role::cache_meta}, BlocksFound{.id = id, .counts = {1}, .holders = {holder}});
      if (row.waited) b.run(1);
      b.hear(server_actor, {other, Role::inference_worker}, Heartbeat{.models = {"m1"}});
      b.hear(server_actor, {holder, Role::inference_worker},
             Heartbeat{.draining = row.draining, .slots_busy = row.busy, .models = {"m1"}});
      Execute plan = plan_of(id, block);
      if (row.to != holder) plan.blocks[1].at = holder;
      b.costs.on_send(server_actor, {row.to, Role::inference_worker}, plan);
      CHECK(b.says("is idle and lacks") == row.in_vain);
    }
  }
}
