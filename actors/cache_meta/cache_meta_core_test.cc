#include "actors/cache_meta/cache_meta_core.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "runtime/core_probe.h"

namespace troupe::actors {
namespace {

constexpr Address router{1, Role::router}, worker{1, Role::kv_worker};

BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}

// Windows of 1,000 us in 10 buckets; the user area has 100 tokens.
struct Bench {
  CacheMetaCore core{{.coldest_max = 4,
                      .refresh = {50},
                      .user_popularity = {1'000, 10, 100},
                      .item_popularity = {1'000, 10, 100}}};
  CoreProbe probe{core};

  BlocksFound ask(std::int64_t us, const std::string& user, std::uint8_t block, std::uint32_t tokens = 40) {
    probe.receive(us, router, LookupBlocks{5, user, name(block), tokens, {name(100), name(101)}});
    return probe.sent<BlocksFound>().at(0);
  }
  void add_user(std::int64_t us, const std::string& user, std::uint8_t block, std::uint64_t generation = 1) {
    probe.receive(us, worker, BlockAdded{name(block), SegmentKind::user, user, 40, generation});
  }
  void area(std::uint64_t free) { probe.receive(0, worker, UserArea{free, 100}); }
};

TEST_CASE("an empty index answers with misses at once") {
  Bench b;
  const BlocksFound found = b.ask(10, "ann", 1);
  CHECK(found.id == 5);
  CHECK(found.user_node == 0);
  CHECK(found.item_nodes == std::vector<NodeId>{0, 0});
  CHECK(found.user_frequency == 1);
  CHECK(found.coldest_frequency == 0);
}

TEST_CASE("blocks are found where their worker says, until it says that they are gone") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.probe.receive(0, worker, BlockAdded{name(101), SegmentKind::item, "game", 4, 7});
  BlocksFound found = b.ask(10, "ann", 1);
  CHECK(found.user_node == 1);
  CHECK(found.item_nodes == std::vector<NodeId>{0, 1});
  b.probe.receive(20, worker, BlockRemoved{name(101), 7});
  CHECK(b.ask(30, "ann", 1).item_nodes == std::vector<NodeId>{0, 0});
}

TEST_CASE("a late word about an older generation changes nothing") {
  Bench b;
  b.add_user(0, "ann", 1, 9);
  b.probe.receive(1, worker, BlockRemoved{name(1), 8});
  b.add_user(2, "ann", 1, 8);
  b.probe.receive(3, worker, BlockRemoved{name(1), 8});
  CHECK(b.ask(10, "ann", 1).user_node == 1);
}

TEST_CASE("one lookup is one access, and one that only asks is none") {
  Bench b;
  b.ask(0, "ann", 1);
  b.ask(1, "ann", 1);
  CHECK(b.ask(2, "ann", 1).user_frequency == 3);
  b.probe.receive(3, router, LookupBlocks{6, "ann", name(1), 40, {}, false});
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
  const BlocksFound found = b.ask(4, "new", 4, 60);
  CHECK(found.user_frequency == 1);
  CHECK(found.coldest_frequency == 1);
  CHECK(found.coldest == std::vector<BlockName>{name(3), name(2)});  // 40 + 40 ≥ 60
  b.area(30);
  CHECK(b.ask(5, "new", 4, 60).coldest == std::vector<BlockName>{name(3)});  // 30 + 40 ≥ 60
}

TEST_CASE("there is no bar while there is room, nor for a user who is cached") {
  Bench b;
  b.ask(0, "ann", 1);
  b.add_user(0, "ann", 1);
  b.area(40);
  CHECK(b.ask(1, "new", 4, 40).coldest_frequency == 0);
  CHECK(b.ask(1, "new", 4, 40).coldest.empty());
  b.area(39);
  CHECK(b.ask(2, "new", 4, 40).coldest_frequency == 1);
  CHECK(b.ask(3, "ann", 1, 40).coldest_frequency == 0);
}

TEST_CASE("a user larger than the whole area is never hot enough") {
  Bench b;
  b.area(100);
  CHECK(b.ask(0, "giant", 4, 101).coldest_frequency == std::numeric_limits<double>::max());
  CHECK(b.ask(0, "fitting", 4, 100).coldest_frequency == 0);
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
  const BlocksFound found = b.ask(1'201, "new", 4, 40);
  CHECK(found.coldest == std::vector<BlockName>{name(1)});
  CHECK(found.coldest_frequency == 0);
}

TEST_CASE("a forgotten owner leaves the index, and every worker is told") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.add_user(0, "ann", 2);
  b.probe.receive(1, router, Forget{SegmentKind::user, "ann"});
  CHECK(b.probe.sent<Forget>().size() == 1);
  CHECK(b.probe.recipients().at(0) == worker);
  CHECK(b.ask(2, "ann", 1).user_node == 0);
  b.probe.receive(3, router, Forget{SegmentKind::item, "unknown"});
  CHECK(b.probe.sent<Forget>().size() == 1);  // it may be on a disk
}

TEST_CASE("a lost node takes its blocks along") {
  Bench b;
  b.add_user(0, "ann", 1);
  b.probe.lose(1, 2);
  CHECK(b.ask(2, "ann", 1).user_node == 1);
  b.probe.lose(3, 1);
  CHECK(b.ask(4, "ann", 1).user_node == 0);
}

TEST_CASE("a full index refuses newcomers, and a stranger's word counts for nothing") {
  CacheMetaCore core{{.index_blocks_max = 1}};
  CoreProbe probe{core};
  probe.receive(0, {2, Role::kv_worker}, BlockAdded{name(9)});
  CHECK(probe.counted(Metric::protocol_errors) == 1);
  probe.receive(0, worker, BlockAdded{name(1), SegmentKind::item, "a", 4, 1});
  probe.receive(0, worker, BlockAdded{name(2), SegmentKind::item, "b", 4, 2});
  probe.receive(0, worker, BlockAdded{name(1), SegmentKind::item, "a", 4, 3});  // replaces itself
  probe.receive(1, router, LookupBlocks{1, "", {}, 0, {name(1), name(2), name(9)}});
  CHECK(probe.sent<BlocksFound>().at(0).item_nodes == std::vector<NodeId>{1, 0, 0});
}

TEST_CASE("status names the hottest items by their owners") {
  Bench b;
  b.probe.receive(0, worker, BlockAdded{name(101), SegmentKind::item, "game", 4, 7});
  b.ask(1, "ann", 1);
  b.probe.receive(2, router, LookupBlocks{6, "", {}, 0, {name(101)}});
  b.probe.receive(3, router, StatusRequest{8});
  const StatusReply reply = b.probe.sent<StatusReply>().at(0);
  CHECK(reply.ready);
  CHECK(field_of(reply, "index_blocks") == "1");
  CHECK(field_of(reply, "hottest_items").substr(0, 8) == "game 2.0");
}

TEST_CASE("after any news the index agrees with a plain list of what the worker holds") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  Bench b;
  b.area(0);
  std::map<std::uint8_t, std::uint64_t> held;  // block → generation; block n belongs to user n mod 5
  for (std::uint64_t generation = 1; generation < 2'000; ++generation) {
    const auto block = static_cast<std::uint8_t>(random() % 20);
    const auto us = static_cast<std::int64_t>(generation);
    if (held.count(block) == 0) {
      b.add_user(us, std::to_string(block % 5), block, held[block] = generation);
    } else if (random() % 8 == 0) {
      b.probe.receive(us, router, Forget{SegmentKind::user, std::to_string(block % 5)});
      std::erase_if(held, [&](const auto& entry) { return entry.first % 5 == block % 5; });
    } else {
      b.probe.receive(us, worker, BlockRemoved{name(block), held[block]});
      held.erase(block);
    }
    const auto probe = static_cast<std::uint8_t>(random() % 20);
    const BlocksFound found = b.ask(us, "asker", probe);
    REQUIRE(found.user_node == held.count(probe));
    for (const BlockName& cold : found.coldest) REQUIRE(held.count(cold.bytes[0]) == 1);
  }
}

}  // namespace
}  // namespace troupe::actors
