#include "actors/cache_meta/cache_meta_core.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <random>

#include "runtime/coordination/coordination_state.h"
#include "runtime/testing/accepted_senders.h"
#include "runtime/testing/core_probe.h"

namespace troupe::actors {
namespace cache_meta_core_test {

constexpr Address router{1, Role::router}, worker{1, Role::kv_worker}, other{2, Role::kv_worker};
using Nodes = std::vector<NodeId>;

BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}

// Answer to Bench::ask, which looks up one user block and two item blocks.
struct Answer : BlocksFound {
  explicit Answer(BlocksFound found) : BlocksFound(std::move(found)) {
    REQUIRE(counts.size() == 3);
    user_holders = {holders.begin(), holders.begin() + counts[0]};
    item_holders = {holders.begin() + counts[0], holders.end()};
    item_counts = {counts[1], counts[2]};
  }
  Nodes user_holders, item_holders;
  std::vector<std::uint8_t> item_counts;
  double user_uses() const { return uses[0]; }
  double item_uses() const { return uses[1] + uses[2]; }
};

// Windows of 1,000 us in 10 buckets; the user area has 100 tokens; heartbeats of 200 us.
struct Bench {
  static CacheMetaConfig config() {
    return {.node = 3,
            .kv_nodes = {1, 2},
            .routers = {1, 4},
            .coldest_max = 4,
            .refresh = {50},
            .heartbeat = {200},
            .leader_lease = {1'000},
            .user_popularity = {1'000, 10, 100},
            .item_popularity = {1'000, 10, 100}};
  }
  CacheMetaCore core;
  explicit Bench(CacheMetaConfig c = config()) : core(std::move(c)) {}
  CoreProbe probe{core};
  CoordinationState state;
  std::map<NodeId, CacheChanges> latest;  // latest of each worker

  Answer ask(std::int64_t us, const std::string& user, std::uint8_t block, std::uint32_t tokens = 40,
             Nodes prefer = {}) {
    probe.receive(us, router,
                  LookupBlocks{5,
                               user,
                               {{name(block), SegmentKind::user, tokens}, {name(100)}, {name(101)}},
                               std::move(prefer)});
    return Answer(probe.sent<BlocksFound>().at(0));
  }
  void tell(std::int64_t us, std::vector<BlockEntry> added, std::vector<BlockVersion> removed = {},
            NodeId node = 1) {
    CacheChanges& changes = latest[node];
    capacity(node, PoolArea::user).total_tokens = 100;
    changes = {1, changes.sequence + 1, std::move(added), std::move(removed), changes.areas};
    probe.receive(us, {node, Role::kv_worker}, changes);
  }
  void add_user(std::int64_t us, const std::string& user, std::uint8_t block, std::uint64_t generation = 1,
                NodeId node = 1) {
    tell(us, {{name(block), SegmentKind::user, user, 40, generation}}, {}, node);
  }
  void add_item(std::int64_t us, const std::string& item, std::uint8_t block, NodeId node = 1) {
    tell(us, {{name(block), SegmentKind::item, item, 4, 7}}, {}, node);
  }
  AreaCapacity& capacity(NodeId node, PoolArea area) {
    latest[node].areas.resize(std::size(area_table));
    return latest[node].areas[index_of(area)];
  }
  void area(std::uint64_t free, NodeId node = 1) {
    capacity(node, PoolArea::user).free_tokens = free;
    tell(0, {}, {}, node);
  }
  // Answers all requests of the core to the Coordination. Its other effects are in `did`.
  CoreProbe did{core};
  void coordinate(std::int64_t us) {
    did.effects = {};
    for (auto asked = probe.started<Coordinate>(); !asked.empty(); asked = probe.started<Coordinate>()) {
      probe.done(us, asked[0].first, std::get<CoordinationReply>(state.ask(us, asked[0].second)));
      did.effects.list.insert(did.effects.list.end(), probe.effects.list.begin(), probe.effects.list.end());
    }
  }
  void lead() {
    probe.start();
    coordinate(0);
  }
};

TEST_CASE("cache-meta: accepts messages from the expected senders and counts all else as errors") {
  const auto receive = [](Address from, const Message& message) {
    Bench b;
    b.lead();
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(accepted_senders(1, receive) == R"(LookupBlocks: everybody
Forget: router here, router elsewhere
Drain: everybody
StatusRequest: everybody
)");
}

TEST_CASE("cache-meta: an empty index answers with misses at once") {
  Bench b;
  const Answer found = b.ask(10, "ann", 1);
  CHECK(found.id == 5);
  CHECK(found.user_holders.empty());
  CHECK(found.item_counts == std::vector<std::uint8_t>{0, 0});
  CHECK(found.user_frequency == 1);
  CHECK(found.coldest_frequency == 0);
}

TEST_CASE("cache-meta: blocks are found where their workers report them, until they report them removed") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.add_item(0, "game", 101);
  b.add_item(0, "game", 101, 2);
  Answer found = b.ask(10, "ann", 1);
  CHECK(found.user_holders == Nodes{1});
  CHECK(found.item_counts == std::vector<std::uint8_t>{0, 2});
  CHECK(found.item_holders == Nodes{2, 1});  // request 5 rotates them by 5
  CHECK(b.ask(10, "ann", 1, 40, {1}).item_holders == Nodes{1, 2});
  b.tell(20, {}, {{name(101), 7}});
  CHECK(b.ask(30, "ann", 1).item_holders == Nodes{2});
}

TEST_CASE("cache-meta: an answer names at most holders_max holders of a block") {
  CacheMetaCore core{{.kv_nodes = {1, 2, 3, 4}, .holders_max = 2}};
  CoreProbe probe{core};
  for (NodeId node = 1; node <= 4; ++node)
    probe.receive(0, {node, Role::kv_worker},
                  CacheChanges{1, 1, {{name(1), SegmentKind::item, "a", 4, 1}}, {}});
  probe.receive(1, router, LookupBlocks{4, "", {{name(1)}, {name(1)}}, {3}});
  CHECK(probe.sent<BlocksFound>().at(0).holders == Nodes{3, 1, 3, 1});
}

TEST_CASE("cache-meta: one lookup is one access, and a lookup without count_access is none") {
  Bench b;
  b.ask(0, "ann", 1);
  b.ask(1, "ann", 1);
  CHECK(b.ask(2, "ann", 1).user_frequency == 3);
  b.probe.receive(3, router, LookupBlocks{6, "ann", {{name(1), SegmentKind::user, 40}}, {}, false});
  CHECK(b.probe.sent<BlocksFound>().at(0).user_frequency == 3);
  CHECK(b.ask(1'150, "ann", 1).user_frequency == 1);  // the window has moved on
}

TEST_CASE(
    "cache-meta: the coldest cached user is the threshold, and users are named until enough tokens are "
    "free") {
  Bench b;
  b.area(0);
  for (int i = 0; i < 3; ++i) b.ask(i, "hot", 1);
  for (int i = 0; i < 2; ++i) b.ask(i, "warm", 2);
  b.ask(2, "cold", 3);
  b.add_user(3, "hot", 1);
  b.add_user(3, "warm", 2);
  b.add_user(3, "cold", 3);
  const Answer found = b.ask(4, "new", 4, 60);
  CHECK(found.user_frequency == 1);
  CHECK(found.coldest_frequency == 1);
  CHECK(found.coldest == std::vector<BlockName>{name(3), name(2)});  // 40 + 40 ≥ 60
  b.area(30);
  CHECK(b.ask(5, "new", 4, 60).coldest == std::vector<BlockName>{name(3)});  // 30 + 40 ≥ 60
}

TEST_CASE("cache-meta: a history in parts needs free tokens only for parts that no node has") {
  Bench b;
  b.area(50);
  b.ask(0, "cold", 3);
  b.add_user(0, "cold", 3);
  const auto ask = [&](std::uint8_t first) {
    std::vector<BlockQuery> parts;
    for (std::uint8_t part = 0; part < 3; ++part)
      parts.push_back({name(static_cast<std::uint8_t>(first + part)), SegmentKind::user, 20});
    b.probe.receive(1, router, LookupBlocks{6, "new", parts});
    return b.probe.sent<BlocksFound>().at(0);
  };
  CHECK(ask(10).coldest == std::vector<BlockName>{name(3)});  // 50 < 60
  b.add_user(2, "new", 10);
  CHECK(ask(10).coldest.empty());
}

TEST_CASE(
    "cache-meta: the threshold is there with or without free space, but 0 for a cached user or an empty "
    "index") {
  Bench b;
  b.area(100);
  CHECK(b.ask(0, "ann", 1).coldest_frequency == 0);
  b.add_user(0, "ann", 1);
  b.area(40);
  CHECK(b.ask(1, "new", 4, 40).coldest_frequency == 1);
  CHECK(b.ask(1, "new", 4, 40).coldest.empty());  // no eviction is needed
  b.area(39);
  CHECK(b.ask(2, "new", 4, 40).coldest_frequency == 1);
  CHECK(b.ask(2, "new", 4, 40).coldest == std::vector<BlockName>{name(1)});
  CHECK(b.ask(3, "ann", 1, 40).coldest_frequency == 0);
}

TEST_CASE("cache-meta: a user larger than the whole area is never hot enough") {
  Bench b;
  b.area(100);
  CHECK(b.ask(0, "giant", 4, 101).coldest_frequency == std::numeric_limits<double>::max());
  CHECK(b.ask(0, "fitting", 4, 100).coldest_frequency == 0);
}

TEST_CASE(
    "cache-meta: without a user area no user is hot enough, but before the first report the threshold is 0") {
  Bench b;
  CHECK(b.ask(0, "ann", 1).coldest_frequency == 0);
  b.capacity(1, PoolArea::item).total_tokens = 100;
  b.probe.receive(0, worker, CacheChanges{1, 1, {}, {}, {{0, 100}, {}}});
  CHECK(b.ask(0, "ann", 1).coldest_frequency == std::numeric_limits<double>::max());
}

TEST_CASE(
    "cache-meta: expected uses of a user block follow how often such blocks return within the workers' "
    "memory") {
  Bench b;
  CHECK(b.ask(0, "ann", 1).user_uses() == 0);
  CHECK(b.ask(0, "ann", 1).user_uses() == 0);  // no memory is known yet
  b.area(100);
  b.ask(1, "ann", 1, 50);
  const double at_first = b.ask(1, "ann", 1, 50).user_uses();
  CHECK(b.ask(2, "bob", 2, 50).user_uses() > 0);
  CHECK(at_first == 0);    // no block has returned twice yet
  b.ask(2, "ann", 3, 50);  // another profile
  const double before = b.ask(3, "new", 4, 50).user_uses();
  // After three blocks of 50 it would be evicted.
  CHECK(b.ask(4, "ann", 1, 50).user_uses() < before);
  b.probe.receive(5, router, LookupBlocks{6, "eve", {{name(5), SegmentKind::user, 40}}, {}, false});
  // No count_access: nothing changes.
  CHECK(b.probe.sent<BlocksFound>().at(0).uses == std::vector<double>{0});
}

TEST_CASE("cache-meta: a block one token larger than all memory has no expected uses") {
  for (const std::uint32_t memory : {0u, 100u}) {
    CAPTURE(memory);
    Bench b;
    if (memory > 0) b.area(100);
    for (int i = 0; i < 3; ++i) CHECK(b.ask(0, "ann", 1, memory + 1).user_uses() == 0);
    if (memory == 0) continue;
    for (int i = 0; i < 2; ++i) b.ask(0, "bob", 2, memory);
    CHECK(b.ask(0, "bob", 2, memory).user_uses() > 0);
  }
}

TEST_CASE("cache-meta: a user block being computed has no expected uses until it should be ready") {
  Bench b;
  b.area(1'000);
  const auto uses = [&](std::int64_t us, const std::string& user, std::uint8_t block) {
    return b.ask(us, user, block, 50).user_uses();
  };
  for (int i = 0; i < 9; ++i) uses(0, "ann", 1);
  uses(10, "bob", 2);
  CHECK(uses(15, "bob", 2) > 0);  // the time to compute it is not known yet
  b.add_user(25, "bob", 2);       // took 10 us after the second lookup
  CHECK(uses(100, "cid", 3) > 0);
  CHECK(uses(119, "cid", 3) == 0);
  CHECK(uses(120, "cid", 3) > 0);  // it was apparently not computed
  b.add_user(130, "cid", 3);
  CHECK(uses(131, "cid", 3) > 0);  // it is cached
}

TEST_CASE("cache-meta: expected uses of a user block shrink by those of evicted items") {
  enum class Evicted { none, hot, cold, copy };
  for (const Evicted evicted : {Evicted::none, Evicted::hot, Evicted::cold, Evicted::copy}) {
    CAPTURE(static_cast<int>(evicted));
    Bench b;
    b.area(10);
    b.add_item(0, "a", 100);
    if (evicted == Evicted::copy) b.add_item(0, "a", 100, 2);
    for (int i = 0; i < 50; ++i) b.ask(10 * i, "ann", 1, 10);
    const bool now = evicted == Evicted::hot || evicted == Evicted::copy;
    if (now) b.tell(500, {}, {{name(100), 7}});
    for (int i = 0; i < 2; ++i) b.ask(1'000'000, "bob", 2, 10);
    if (evicted == Evicted::cold) b.tell(1'000'000, {}, {{name(100), 7}});
    b.area(9);
    // Two or fifty uses of each item are lost for twelve of the user's.
    CHECK((b.ask(1'000'000, "cid", 3, 10).user_uses() > 0) == (evicted != Evicted::hot));
  }
}

TEST_CASE("cache-meta: expected uses of a user block do not shrink by items that nobody keeps") {
  Bench b;
  b.area(10);
  for (int i = 0; i < 50; ++i) b.ask(10 * i, "ann", 1, 10);  // and as often two items
  for (int i = 0; i < 2; ++i) b.ask(1'000, "bob", 2, 10);
  b.area(9);
  CHECK(b.ask(1'000, "cid", 3, 10).user_uses() > 0);
}

TEST_CASE("cache-meta: earlier uses of missing items are reported while item tokens are free") {
  Bench b;
  b.add_item(0, "a", 100);
  CHECK(b.ask(1, "ann", 1).item_uses() == 0);  // item 101 is new
  CHECK(b.ask(2, "ann", 1).item_uses() == 0);  // no free item tokens
  b.capacity(1, PoolArea::item).free_tokens = 8;
  b.tell(2, {});
  CHECK(b.ask(3, "ann", 1).item_uses() == 2);
  // The free tokens are not on a preferred node.
  CHECK(b.ask(4, "ann", 1, 40, {2}).item_uses() == 0);
  b.add_item(4, "b", 101);
  CHECK(b.ask(5, "ann", 1).item_uses() == 0);  // nothing is missing
}

TEST_CASE("cache-meta: a user who stops coming becomes the coldest without a lookup") {
  Bench b;
  b.probe.start();
  b.area(0);
  for (int i = 0; i < 9; ++i) b.ask(i, "gone", 1);
  b.add_user(10, "gone", 1);
  b.ask(900, "steady", 2);
  b.add_user(900, "steady", 2);
  b.probe.run_until(1'200);
  const Answer found = b.ask(1'201, "new", 4, 40);
  CHECK(found.coldest == std::vector<BlockName>{name(1)});
  CHECK(found.coldest_frequency == 0);
}

TEST_CASE("cache-meta: free tokens, threshold and eviction candidates are those of the user's home") {
  Bench b;
  b.area(0, 1);
  b.area(50, 2);
  for (int i = 0; i < 3; ++i) b.ask(i, "here", 1);
  b.ask(2, "there", 2);
  b.add_user(3, "here", 1, 1, 1);
  b.add_user(3, "there", 2, 1, 2);
  const Answer one = b.ask(4, "new", 4, 40, {1, 2}), other = b.ask(4, "new", 4, 60, {2, 1});
  CHECK(one.coldest == std::vector<BlockName>{name(1)});
  CHECK(one.coldest_frequency == 3);
  CHECK(other.coldest == std::vector<BlockName>{name(2)});
  CHECK(other.coldest_frequency == 1);
  CHECK(b.ask(5, "new", 4, 40, {2, 1}).coldest.empty());
}

TEST_CASE("cache-meta: on start it requests all inventories and learns users with their present hotness") {
  Bench b;
  b.ask(0, "ann", 1);
  b.probe.start(1);
  CHECK(b.probe.sent<InventoryRequest>().size() == 2);
  CHECK(b.core.syncing() == 2);
  b.probe.receive(2, worker, InventoryPart{1, 0, 0, {{name(1), SegmentKind::user, "ann", 40, 1}}, true});
  CHECK(b.core.syncing() == 1);
  CHECK(b.core.index().coldest().begin()->frequency == 1);
  b.probe.run_until(400'001);
  CHECK(b.probe.sent<InventoryRequest>().size() >= 1);  // node 2 again
}

TEST_CASE("cache-meta: only the leader relays Forget, with its token, and to every worker") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.add_user(0, "ann", 2);
  b.probe.receive(1, router, Forget{SegmentKind::user, "ann"});
  CHECK(b.probe.sent<Forget>().empty());
  CHECK(b.ask(2, "ann", 1).user_holders == Nodes{1});
  b.lead();
  b.probe.receive(3, router, Forget{SegmentKind::user, "ann"});
  CHECK(b.probe.sent<Forget>() == std::vector<Forget>(2, {SegmentKind::user, "ann", b.core.token()}));
  CHECK(b.probe.recipients() == std::vector<Address>{worker, other});
  CHECK(b.ask(4, "ann", 1).user_holders == Nodes{1});  // until the worker reports it removed
  b.probe.receive(5, router, Forget{SegmentKind::item, "unknown"});
  CHECK(b.probe.sent<Forget>().size() == 2);  // it may be on a disk
  b.probe.receive(6, worker, Forget{SegmentKind::item, "unknown"});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("cache-meta: a leader announces itself at once and every heartbeat, to routers and workers") {
  Bench b;
  b.lead();
  CHECK(b.core.leads({0}));
  CHECK(b.did.sent<LeaderBeat>() == std::vector<LeaderBeat>(4, {b.core.token()}));
  CHECK(b.did.recipients() == std::vector<Address>{router, {4, Role::router}, worker, other});
  b.probe.run_until(200);
  CHECK(b.probe.sent<LeaderBeat>().size() == 4);
  b.probe.run_until(799);  // the Coordination does not answer any more
  CHECK(b.core.leads({799}));
  b.probe.run_until(1'000);
  CHECK(!b.core.leads({800}));
  CHECK(b.probe.sent<LeaderBeat>().empty());
}

TEST_CASE("cache-meta: draining ends leadership, and lookups go on") {
  Bench b;
  b.lead();
  b.probe.receive(1, {9, Role::server}, Drain{4, true});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "no");
  CHECK(!b.core.leads({1}));
  b.coordinate(1);
  b.probe.receive(2, {9, Role::server}, Drain{4, true});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "yes");
  CHECK(b.ask(3, "ann", 1).id == 5);
}

TEST_CASE("cache-meta: a lost node is not named until it sends again") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.probe.lose(1, 2);
  CHECK(b.ask(2, "ann", 1).user_holders == Nodes{1});
  b.probe.lose(3, 1);
  CHECK(b.ask(4, "ann", 1).user_holders.empty());
  b.tell(5, {});
  CHECK(b.ask(6, "ann", 1).user_holders == Nodes{1});
}

TEST_CASE("cache-meta: messages of unknown workers and malformed messages are counted and ignored") {
  Bench b;
  b.probe.receive(0, {9, Role::kv_worker}, CacheChanges{1, 1, {{name(1)}}, {}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(0, worker, CacheChanges{0, 1, {{name(1)}}, {}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(0, worker, Executed{});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.core.index().blocks() == 0);
}

TEST_CASE("cache-meta: status names the hottest items by owner, and the leader") {
  Bench b;
  b.lead();
  b.add_item(0, "game", 101);
  b.ask(1, "ann", 1);
  b.probe.receive(2, router, LookupBlocks{6, "", {{name(101)}}});
  b.probe.receive(3, router, StatusRequest{8});
  const StatusReply reply = b.probe.sent<StatusReply>().at(0);
  CHECK(reply.ready);
  CHECK(reply.node == 3);
  CHECK(field_of(reply, "index_blocks") == "1");
  CHECK(field_of(reply, "syncing") == "2");
  CHECK(field_of(reply, "leader") == "yes");
  CHECK(field_of(reply, "token") == std::to_string(b.core.token()));
  CHECK(field_of(reply, "hottest_items").substr(0, 8) == "game 2.0");
}

TEST_CASE("cache-meta: under random changes answers agree with a plain list of the workers' blocks") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  Bench b;
  b.area(0, 1);
  b.area(0, 2);
  // Generation by block and node; block n belongs to user n mod 5.
  std::map<std::pair<std::uint8_t, NodeId>, std::uint64_t> held;
  for (std::uint64_t generation = 1; generation < 2'000; ++generation) {
    const auto block = static_cast<std::uint8_t>(random() % 20);
    const NodeId node = 1 + random() % 2;
    const auto us = static_cast<std::int64_t>(generation);
    if (!held.contains({block, node})) {
      b.add_user(us, std::to_string(block % 5), block, held[{block, node}] = generation, node);
    } else {
      b.tell(us, {}, {{name(block), held[{block, node}]}}, node);
      held.erase({block, node});
    }
    const auto probe = static_cast<std::uint8_t>(random() % 20);
    const Answer found = b.ask(us, "asker", probe);
    REQUIRE(found.user_holders.size() == held.count({probe, 1}) + held.count({probe, 2}));
    for (const BlockName& cold : found.coldest)
      REQUIRE(held.count({cold.bytes[0], 1}) + held.count({cold.bytes[0], 2}) > 0);
    REQUIRE(b.core.check_bounds() == "");
  }
}

TEST_CASE(
    "cache-meta: a worker that joins is followed and asked for its inventory, one that left is forgotten") {
  CacheMetaCore core{
      {.node = 3, .kv_nodes = {1, 2}, .members_every = {200}, .heartbeat = {200}, .leader_lease = {1'000}}};
  CoreProbe probe{core};
  const auto members_are = [&](std::int64_t us, Revision revision, const std::string& text) {
    if (us > 0) probe.run_until(us);
    for (const auto& [job, question] : probe.started<Coordinate>())
      if (const auto* read = std::get_if<ReadKey>(&question.what); read && read->key == members_key)
        return probe.done(us, job, CoordinationReply{.ok = true, .revision = revision, .value = text});
    FAIL("the core did not read the members");
  };
  const auto tell = [&](std::int64_t us, NodeId node, std::uint8_t block) {
    probe.receive(us, {node, Role::kv_worker},
                  CacheChanges{1, 1, {{name(block), SegmentKind::user, "ann", 40, 1}}, {}, {}, {}});
  };
  const auto holders = [&](std::int64_t us, std::uint8_t block) {
    probe.receive(us, router, LookupBlocks{5, "ann", {{name(block), SegmentKind::user, 40}}, {}});
    return probe.sent<BlocksFound>().at(0).holders;
  };
  probe.start();
  members_are(0, 0, "");
  tell(1, 1, 1);
  tell(2, 6, 2);
  CHECK(holders(3, 2).empty());  // from an unknown worker
  members_are(200, 4, "joined 6 10.0.0.6 7000 w6\n");
  REQUIRE(probe.sent<InventoryRequest>().size() == 1);
  tell(201, 6, 2);
  CHECK(holders(202, 2) == Nodes{6});
  CHECK(holders(203, 1) == Nodes{1});
  members_are(400, 5, "joined 6 10.0.0.6 7000 w6\nleft 1\n");
  CHECK(holders(401, 1).empty());
  tell(402, 1, 1);
  CHECK(holders(403, 1).empty());
}

TEST_CASE(
    "cache-meta: a leader announces itself to all models' routers, also joined ones, but to none that left") {
  CacheMetaConfig config = Bench::config();
  config.members = {
      {.last = 9, .joined = {{6, "w6", "h", 1}, {9, "door", "h", 2, {NodeRole::router}}}, .left = {2, 4}}, 4};
  config.actor_ids = {2};
  Bench b(config);
  b.lead();
  constexpr NodeId second_model = ModelActorIds::nodes_max + 1;
  CHECK(b.did.sent<LeaderBeat>().size() == 6);
  CHECK(b.did.recipients() == std::vector<Address>{{1, Role::router},
                                                   {1 + second_model, Role::router},
                                                   {9, Role::router},
                                                   {9 + second_model, Role::router},
                                                   {1, Role::kv_worker},
                                                   {6, Role::kv_worker}});
}

TEST_CASE("cache-meta: on start it follows nodes that had joined, and none that had left") {
  CacheMetaCore core{{.node = 3,
                      .kv_nodes = {1, 2},
                      .members = {{.last = 6, .joined = {{6, "w6", "10.0.0.6", 7000}}, .left = {2}}, 4},
                      .members_every = {200}}};
  CoreProbe probe{core};
  probe.start();
  std::vector<NodeId> asked;
  for (const Address& to : probe.recipients())
    if (to.role == Role::kv_worker) asked.push_back(to.node);
  CHECK(asked == Nodes{1, 6});
}

}  // namespace cache_meta_core_test
}  // namespace troupe::actors
