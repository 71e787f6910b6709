#include "actors/cache_meta/cache_meta_core.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <random>

#include "runtime/coordination/coordination_state.h"
#include "runtime/testing/core_heard.h"
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

// An answer to Bench::ask, which asks for a user's block and for two items'.
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
  std::map<NodeId, CacheChanges> told;  // the last of each worker

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
    CacheChanges& changes = told[node];
    room(node, PoolArea::user).total_tokens = 100;
    changes = {1, changes.sequence + 1, std::move(added), std::move(removed), {}, changes.areas};
    probe.receive(us, {node, Role::kv_worker}, changes);
  }
  void add_user(std::int64_t us, const std::string& user, std::uint8_t block, std::uint64_t generation = 1,
                NodeId node = 1) {
    tell(us, {{name(block), SegmentKind::user, user, 40, generation}}, {}, node);
  }
  void add_item(std::int64_t us, const std::string& item, std::uint8_t block, NodeId node = 1) {
    tell(us, {{name(block), SegmentKind::item, item, 4, 7}}, {}, node);
  }
  AreaRoom& room(NodeId node, PoolArea area) {
    told[node].areas.resize(std::size(area_table));
    return told[node].areas[index_of(area)];
  }
  void area(std::uint64_t free, NodeId node = 1) {
    room(node, PoolArea::user).free_tokens = free;
    tell(0, {}, {}, node);
  }
  // Answers what the core asks of the Coordination, until it asks nothing more. What else it did is in `did`.
  CoreProbe did{core};
  void coordinate(std::int64_t us) {
    did.effects = {};
    for (auto asked = probe.started<Coordinate>(); !asked.empty(); asked = probe.started<Coordinate>()) {
      probe.done(us, asked[0].first, std::get<Coordinated>(state.ask(us, asked[0].second)));
      did.effects.list.insert(did.effects.list.end(), probe.effects.list.begin(), probe.effects.list.end());
    }
  }
  void lead() {
    probe.start();
    coordinate(0);
  }
};

TEST_CASE("cache-meta hears those whose business it is, and counts all else") {
  const auto receive = [](Address from, const Message& message) {
    Bench b;
    b.lead();
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(whom_it_hears(1, receive) == R"(LookupBlocks: everybody
Forget: router here, router elsewhere
Drain: everybody
StatusRequest: everybody
)");
}

TEST_CASE("an empty index answers with misses at once") {
  Bench b;
  const Answer found = b.ask(10, "ann", 1);
  CHECK(found.id == 5);
  CHECK(found.user_holders.empty());
  CHECK(found.item_counts == std::vector<std::uint8_t>{0, 0});
  CHECK(found.user_frequency == 1);
  CHECK(found.coldest_frequency == 0);
}

TEST_CASE("blocks are found where their workers say, until they say that they are gone") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.add_item(0, "game", 101);
  b.add_item(0, "game", 101, 2);
  Answer found = b.ask(10, "ann", 1);
  CHECK(found.user_holders == Nodes{1});
  CHECK(found.item_counts == std::vector<std::uint8_t>{0, 2});
  CHECK(found.item_holders == Nodes{2, 1});  // request 5 turns them by 5
  CHECK(b.ask(10, "ann", 1, 40, {1}).item_holders == Nodes{1, 2});
  b.tell(20, {}, {{name(101), 7}});
  CHECK(b.ask(30, "ann", 1).item_holders == Nodes{2});
}

TEST_CASE("of many holders few are named") {
  CacheMetaCore core{{.kv_nodes = {1, 2, 3, 4}, .holders_max = 2}};
  CoreProbe probe{core};
  for (NodeId node = 1; node <= 4; ++node)
    probe.receive(0, {node, Role::kv_worker},
                  CacheChanges{1, 1, {{name(1), SegmentKind::item, "a", 4, 1}}, {}});
  probe.receive(1, router, LookupBlocks{4, "", {{name(1)}, {name(1)}}, {3}});
  CHECK(probe.sent<BlocksFound>().at(0).holders == Nodes{3, 1, 3, 1});
}

TEST_CASE("one lookup is one access, and one that only asks is none") {
  Bench b;
  b.ask(0, "ann", 1);
  b.ask(1, "ann", 1);
  CHECK(b.ask(2, "ann", 1).user_frequency == 3);
  b.probe.receive(3, router, LookupBlocks{6, "ann", {{name(1), SegmentKind::user, 40}}, {}, false});
  CHECK(b.probe.sent<BlocksFound>().at(0).user_frequency == 3);
  CHECK(b.ask(1'150, "ann", 1).user_frequency == 1);  // the window has moved on
}

TEST_CASE("the coldest cached user is the bar, and named until there is room") {
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

TEST_CASE("a history in parts needs room for those that nobody has") {
  Bench b;
  b.area(50);
  b.ask(0, "cold", 3);
  b.add_user(0, "cold", 3);
  const auto ask = [&](std::uint8_t first) {
    std::vector<AskedBlock> parts;
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
    "the bar is there whether a hole is or not, but not for a user who is cached, nor while nobody is") {
  Bench b;
  b.area(100);
  CHECK(b.ask(0, "ann", 1).coldest_frequency == 0);
  b.add_user(0, "ann", 1);
  b.area(40);
  CHECK(b.ask(1, "new", 4, 40).coldest_frequency == 1);
  CHECK(b.ask(1, "new", 4, 40).coldest.empty());  // nobody has to go
  b.area(39);
  CHECK(b.ask(2, "new", 4, 40).coldest_frequency == 1);
  CHECK(b.ask(2, "new", 4, 40).coldest == std::vector<BlockName>{name(1)});
  CHECK(b.ask(3, "ann", 1, 40).coldest_frequency == 0);
}

TEST_CASE("a user larger than the whole area is never hot enough") {
  Bench b;
  b.area(100);
  CHECK(b.ask(0, "giant", 4, 101).coldest_frequency == std::numeric_limits<double>::max());
  CHECK(b.ask(0, "fitting", 4, 100).coldest_frequency == 0);
}

TEST_CASE("where users have no room nobody is hot enough, but before the first report there is no bar") {
  Bench b;
  CHECK(b.ask(0, "ann", 1).coldest_frequency == 0);
  b.room(1, PoolArea::item).total_tokens = 100;
  b.probe.receive(0, worker, CacheChanges{1, 1, {}, {}, {}, {{0, 100}, {}}});
  CHECK(b.ask(0, "ann", 1).coldest_frequency == std::numeric_limits<double>::max());
}

TEST_CASE("a user's block is expected again as such blocks come again within the workers' memory") {
  Bench b;
  CHECK(b.ask(0, "ann", 1).user_uses() == 0);
  CHECK(b.ask(0, "ann", 1).user_uses() == 0);  // there is no memory yet
  b.area(100);
  b.ask(1, "ann", 1, 50);
  const double at_first = b.ask(1, "ann", 1, 50).user_uses();
  CHECK(b.ask(2, "bob", 2, 50).user_uses() > 0);
  CHECK(at_first == 0);    // nothing came a third time yet
  b.ask(2, "ann", 3, 50);  // another profile
  const double before = b.ask(3, "new", 4, 50).user_uses();
  CHECK(b.ask(4, "ann", 1, 50).user_uses() < before);  // three blocks of 50 later it would be gone
  b.probe.receive(5, router, LookupBlocks{6, "eve", {{name(5), SegmentKind::user, 40}}, {}, false});
  CHECK(b.probe.sent<BlocksFound>().at(0).uses == std::vector<double>{0});  // who only asks changes nothing
}

TEST_CASE("of a block that fits into no memory, by one token, nothing is expected") {
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

TEST_CASE("a user's block that somebody is making is not to be made again, until it should be there") {
  Bench b;
  b.area(1'000);
  const auto uses = [&](std::int64_t us, const std::string& user, std::uint8_t block) {
    return b.ask(us, user, block, 50).user_uses();
  };
  for (int i = 0; i < 9; ++i) uses(0, "ann", 1);
  uses(10, "bob", 2);
  CHECK(uses(15, "bob", 2) > 0);  // nobody knows yet how long it takes
  b.add_user(25, "bob", 2);       // 10, as it turns out
  CHECK(uses(100, "cid", 3) > 0);
  CHECK(uses(119, "cid", 3) == 0);
  CHECK(uses(120, "cid", 3) > 0);  // it was not made, it seems
  b.add_user(130, "cid", 3);
  CHECK(uses(131, "cid", 3) > 0);  // it is there
}

TEST_CASE("what is expected of a user's block is less by the items that go for it, in one window at most") {
  for (const std::int64_t later : {1'000, 1'000'000}) {
    Bench b;
    b.area(10);
    for (int i = 0; i < 50; ++i) b.ask(10 * i, "ann", 1, 10);
    for (int i = 0; i < 2; ++i) b.ask(later, "bob", 2, 10);
    b.area(9);
    const double uses = b.ask(later, "cid", 3, 10).user_uses();
    CHECK((uses > 0) == (later > 1'000));  // two uses of each item, or fifty, go for twelve of his
  }
}

TEST_CASE("earlier uses of missing items are told while there is room for them") {
  Bench b;
  b.add_item(0, "a", 100);
  CHECK(b.ask(1, "ann", 1).item_uses() == 0);  // item 101 is new
  CHECK(b.ask(2, "ann", 1).item_uses() == 0);  // no room
  b.room(1, PoolArea::item).free_tokens = 8;
  b.tell(2, {});
  CHECK(b.ask(3, "ann", 1).item_uses() == 2);
  CHECK(b.ask(4, "ann", 1, 40, {2}).item_uses() == 0);  // not where the plan may run
  b.add_item(4, "b", 101);
  CHECK(b.ask(5, "ann", 1).item_uses() == 0);  // nothing is missing
}

TEST_CASE("a user who stops coming becomes the coldest, without being asked for") {
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

TEST_CASE(
    "room, bar and who would go are those of the user's home, the first of the nodes where the plan may "
    "run") {
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

TEST_CASE("at its start it asks all workers for their inventories, and learns users as hot as they are") {
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

TEST_CASE("only the leader relays what an owner's change means, with its token; every worker is told") {
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
  CHECK(b.ask(4, "ann", 1).user_holders == Nodes{1});  // until the worker says that it is gone
  b.probe.receive(5, router, Forget{SegmentKind::item, "unknown"});
  CHECK(b.probe.sent<Forget>().size() == 2);  // it may be on a disk
  b.probe.receive(6, worker, Forget{SegmentKind::item, "unknown"});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("the leader says so at once and with every heartbeat, to routers and workers, while it leads") {
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

TEST_CASE("draining ends the lead, and lookups go on") {
  Bench b;
  b.lead();
  b.probe.receive(1, {9, Role::door}, Drain{4, true});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "no");
  CHECK(!b.core.leads({1}));
  b.coordinate(1);
  b.probe.receive(2, {9, Role::door}, Drain{4, true});
  CHECK(field_of(b.probe.sent<StatusReply>().at(0), "drained") == "yes");
  CHECK(b.ask(3, "ann", 1).id == 5);
}

TEST_CASE("a lost node is not named until it speaks again") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.probe.lose(1, 2);
  CHECK(b.ask(2, "ann", 1).user_holders == Nodes{1});
  b.probe.lose(3, 1);
  CHECK(b.ask(4, "ann", 1).user_holders.empty());
  b.tell(5, {});
  CHECK(b.ask(6, "ann", 1).user_holders == Nodes{1});
}

TEST_CASE("a stranger's word counts for nothing") {
  Bench b;
  b.probe.receive(0, {9, Role::kv_worker}, CacheChanges{1, 1, {{name(1)}}, {}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(0, worker, CacheChanges{0, 1, {{name(1)}}, {}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(0, worker, Executed{});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.core.index().blocks() == 0);
}

TEST_CASE("status names the hottest items by their owners, and who leads") {
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

TEST_CASE("after any news answers agree with a plain list of what the workers hold") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  Bench b;
  b.area(0, 1);
  b.area(0, 2);
  std::map<std::pair<std::uint8_t, NodeId>, std::uint64_t>
      held;  // generation; block n belongs to user n mod 5
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

TEST_CASE("a worker that joins is believed and asked for what it has, one that has left is forgotten") {
  CacheMetaCore core{
      {.node = 3, .kv_nodes = {1, 2}, .members_every = {200}, .heartbeat = {200}, .leader_lease = {1'000}}};
  CoreProbe probe{core};
  const auto members_are = [&](std::int64_t us, Revision revision, const std::string& text) {
    if (us > 0) probe.run_until(us);
    for (const auto& [job, question] : probe.started<Coordinate>())
      if (const auto* read = std::get_if<ReadKey>(&question.what); read && read->key == members_key)
        return probe.done(us, job, Coordinated{.ok = true, .revision = revision, .value = text});
    FAIL("it did not ask who the workers are");
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
  CHECK(holders(3, 2).empty());  // a stranger's
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
    "who leads says so to every router of each model, those that joined too, and to nobody who has left") {
  CacheMetaConfig config = Bench::config();
  config.members = {
      {.last = 9, .joined = {{6, "w6", "h", 1}, {9, "door", "h", 2, {NodeRole::router}}}, .left = {2, 4}}, 4};
  config.seats = {2};
  Bench b(config);
  b.lead();
  constexpr NodeId second_model = Seats::nodes_max + 1;
  CHECK(b.did.sent<LeaderBeat>().size() == 6);
  CHECK(b.did.recipients() == std::vector<Address>{{1, Role::router},
                                                   {1 + second_model, Role::router},
                                                   {9, Role::router},
                                                   {9 + second_model, Role::router},
                                                   {1, Role::kv_worker},
                                                   {6, Role::kv_worker}});
}

TEST_CASE("an index that starts believes who has joined by then, and nobody who has left") {
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
