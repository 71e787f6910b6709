#include "actors/testing/kv_worker_test.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

InventoryPart inventory(Bench& b, std::int64_t us, std::uint64_t after, Incarnation incarnation = 0) {
  b.probe.receive(us, {2, Role::cache_meta}, InventoryRequest{incarnation, after});
  const auto parts = b.probe.sent<InventoryPart>();
  return parts.empty() ? InventoryPart{} : parts[0];
}

TEST_CASE("kv worker index: every cache-meta gets each change, and a heartbeat without one") {
  Bench b;
  b.probe.start();
  CHECK(b.probe.sent<CacheChanges>().size() == 2);
  CHECK(b.sent_changes() == CacheChanges{1, 1, {}, {}, {{16, 16}, {12, 12}}});
  b.acquire(1, {user(1, 5)});
  CHECK(b.sent_changes() == CacheChanges{1, 2, {}, {}, {{16, 16}, {4, 12}}});
  b.acquire(2, {item(1)});
  CHECK(b.probe.sent<CacheChanges>().empty());
  b.probe.run_until(200'000);
  CHECK(b.probe.sent<CacheChanges>().empty());
  b.probe.run_until(200'001);
  CHECK(b.probe.sent<CacheChanges>().size() == 2);
  CHECK(b.sent_changes().sequence == 3);
  b.probe.run_until(1'000'001);
  CHECK(b.probe.sent<CacheChanges>().size() == 8);
}

TEST_CASE("kv worker index: a block added and removed in one step is not reported") {
  Bench b;
  const auto held = b.acquire(0, {user(1), user(2, 8)});
  b.acquire(1, {user(2, 8)});
  // The new writer of the second block needs the first block's page.
  b.probe.receive(2, allocator, SetSplit{1, 1, {{5}, {2}}});
  b.probe.receive(3, worker, ReleaseBlocks{1, {{name(1), held.at(0).generation, Outcome::written, 77}}});
  CHECK(b.granted().at(0).grant == Grant::write);
  CHECK(b.probe.counted(Metric::blocks_evicted_user) == 1);
  CHECK(b.sent_changes().added.empty());
  CHECK(b.sent_changes().removed.empty());
}

TEST_CASE("kv worker index: an inventory is walked in parts while blocks are added and removed") {
  KvWorkerConfig config = Bench::small();
  config.inventory_part = 2;
  Bench b(config);
  b.probe.start();
  for (std::uint8_t n : {1, 2, 3, 4}) b.write(n, item(n));
  const InventoryPart first = inventory(b, 10, 0);
  REQUIRE(first.blocks.size() == 2);
  CHECK(first.blocks[0].name == name(1));
  CHECK_FALSE(first.last);
  CHECK(b.acquire(11, {item(5)}).at(0).grant == Grant::write);  // in the page of the first block
  CHECK(b.sent_changes().removed.size() == 1);
  b.release(11, b.last, 5, b.granted().at(0), Outcome::written);
  const std::uint64_t sequence = b.sent_changes().sequence;
  const InventoryPart second = inventory(b, 12, first.blocks[1].generation);
  CHECK(second.after == first.blocks[1].generation);
  CHECK(second.sequence == sequence);
  REQUIRE(second.blocks.size() == 2);
  CHECK(second.blocks[1].name == name(4));
  CHECK_FALSE(second.last);
  const InventoryPart third = inventory(b, 13, second.blocks[1].generation, 1);
  REQUIRE(third.blocks.size() == 1);
  CHECK(third.blocks[0].name == name(5));
  CHECK(third.last);
  CHECK(inventory(b, 14, third.blocks[0].generation).last);
}

TEST_CASE("kv worker index: an inventory request for an earlier process gets no answer") {
  Bench b;
  b.probe.receive(0, meta, InventoryRequest{9, 0});
  CHECK(b.probe.sent<InventoryPart>().empty());
}

TEST_CASE("kv worker index: a joined cache-meta gets changes once it asked or led, until it is lost") {
  constexpr Address joined{3, Role::cache_meta};
  const auto sent_changes = [](Bench& b, Address to) {
    const std::vector<Address> recipients = b.probe.recipients();
    return std::ranges::count(recipients, to);
  };
  for (const Message& word :
       {Message(InventoryRequest{}), Message(InventoryRequest{9, 0}), Message(LeaderBeat{5})}) {
    Bench b;
    b.probe.receive(0, joined, Forget{SegmentKind::item, "item 1", 6});
    CHECK(b.probe.counted(Metric::protocol_errors) == 1);  // an unknown cache-meta
    b.write(1, item(1));
    CHECK(sent_changes(b, joined) == 0);
    b.probe.receive(2, joined, word);
    b.write(3, item(2));
    CHECK(sent_changes(b, joined) == 1);
    CHECK(sent_changes(b, meta) == 1);
    b.probe.lose(4, 3);
    b.probe.lose(4, 1);
    b.write(5, item(3));
    CHECK(sent_changes(b, joined) == 0);
    CHECK(sent_changes(b, meta) == 1);  // named in the cluster's file: it comes back
  }
}

TEST_CASE("kv worker index: a replaced leader is not obeyed, however its successor became known") {
  Bench b;
  b.write(0, item(1));
  b.probe.receive(1, {2, Role::cache_meta}, LeaderBeat{7});
  b.probe.receive(2, meta, LeaderBeat{5});
  b.probe.receive(3, meta, Forget{SegmentKind::item, "item 1", 6});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.core.pool().find(name(1)) != nullptr);
  b.probe.receive(4, {2, Role::cache_meta}, Forget{SegmentKind::item, "item 1", 9});
  CHECK(b.core.pool().find(name(1)) == nullptr);
  b.write(5, item(2));
  b.probe.receive(6, {2, Role::cache_meta}, Forget{SegmentKind::item, "item 2", 8});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  // An unknown cache-meta.
  b.probe.receive(7, {3, Role::cache_meta}, Forget{SegmentKind::item, "item 2", 20});
  b.probe.receive(8, meta, Forget{SegmentKind::item, "item 2", 9});
  CHECK(b.core.pool().find(name(2)) == nullptr);
}

TEST_CASE("kv worker index: before a LeaderBeat nothing is forgotten, but tokens are learned") {
  Bench b;
  b.write(0, item(1));
  // Possibly from a former leader.
  b.probe.receive(1, meta, Forget{SegmentKind::item, "item 1", 6});
  CHECK(b.core.pool().find(name(1)) != nullptr);
  b.probe.receive(2, meta, LeaderBeat{5});  // late
  b.probe.receive(3, meta, Forget{SegmentKind::item, "item 1", 5});
  CHECK(b.core.pool().find(name(1)) != nullptr);
  b.probe.receive(4, meta, Forget{SegmentKind::item, "item 1", 6});
  CHECK(b.core.pool().find(name(1)) == nullptr);
}

TEST_CASE("kv worker index: Forget without a leader's token is refused, also before any leader is known") {
  Bench b;
  b.write(0, item(1));
  b.probe.receive(1, meta, Forget{SegmentKind::item, "item 1", 0});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.core.pool().find(name(1)) != nullptr);
}

}  // namespace
}  // namespace troupe::actors
