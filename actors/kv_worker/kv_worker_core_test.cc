#include "actors/kv_worker/kv_worker_core.h"

#include <doctest/doctest.h>

#include "runtime/core_probe.h"

namespace troupe::actors {
namespace {

constexpr Address meta{1, Role::cache_meta}, allocator{1, Role::allocator}, worker{1, Role::inference_worker};

BlockName name(std::uint8_t n) {
  BlockName result;
  result.bytes[0] = n;
  return result;
}
BlockWant item(std::uint8_t n, std::uint32_t tokens = 4) {
  return {name(n), SegmentKind::item, "item " + std::to_string(n), tokens};
}
BlockWant user(std::uint8_t n, std::uint32_t tokens = 4) {
  return {name(n), SegmentKind::user, "user " + std::to_string(n), tokens};
}

// Four pages for items and three for users, of four tokens each; a wait of 100 us, a lease of 1,000 us.
struct Bench {
  KvWorkerCore core{{.pool = {7, 4, 4, 3}, .lease = {1'000}, .report = {1'000'000}}};
  CoreProbe probe{core};
  RequestId last = 0;

  ~Bench() { CHECK(core.pool().check_invariants() == ""); }
  std::vector<BlockGrant> acquire(std::int64_t us, std::vector<BlockWant> wants,
                                  std::vector<BlockName> evict_first = {}, bool may_evict = true) {
    probe.receive(us, worker, AcquireBlocks{++last, 100, wants, evict_first, may_evict});
    const auto answers = probe.sent<BlocksAcquired>();
    return answers.empty() ? std::vector<BlockGrant>{} : answers[0].grants;  // empty: it waits
  }
  void release(std::int64_t us, RequestId id, std::uint8_t block, const BlockGrant& grant, Outcome outcome) {
    probe.receive(us, worker, ReleaseBlocks{id, {{name(block), grant.generation, outcome, 77}}});
  }
  void write(std::int64_t us, const BlockWant& want) {  // acquired and written at once
    const auto grants = acquire(us, {want});
    REQUIRE(grants.at(0).grant == Grant::write);
    release(us, last, want.name.bytes[0], grants[0], Outcome::written);
  }
};

TEST_CASE("an absent block is granted for writing, and once written everybody reads it") {
  Bench b;
  const auto first = b.acquire(0, {item(1, 5)});
  REQUIRE(first.size() == 1);
  CHECK(first[0].grant == Grant::write);
  CHECK(first[0].pages.size() == 2);
  b.release(1, 1, 1, first[0], Outcome::written);
  REQUIRE(b.probe.sent<BlockAdded>().size() == 1);
  CHECK(b.probe.sent<BlockAdded>()[0] ==
        BlockAdded{name(1), SegmentKind::item, "item 1", 5, first[0].generation});
  const auto second = b.acquire(2, {item(1, 5)});
  CHECK(second.at(0).grant == Grant::read);
  CHECK(second[0].checksum == 77);
  CHECK(second[0].pages == first[0].pages);
}

TEST_CASE("who asks for a block that is being written waits for it, and for nothing else") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  CHECK(b.acquire(1, {item(1), item(2)}).empty());
  CHECK(b.probe.counted(Metric::blocks_waited) == 1);
  CHECK(b.acquire(2, {item(3)}).at(0).grant == Grant::write);
  b.release(3, 1, 1, first[0], Outcome::written);
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].id == 2);
  CHECK(answers[0].grants[0].grant == Grant::read);
  CHECK(answers[0].grants[1].grant == Grant::write);
}

TEST_CASE("when a writer gives up the first who waits writes, and the next waits for that one") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  b.acquire(1, {item(1)});
  b.acquire(2, {item(1)});
  b.release(3, 1, 1, first[0], Outcome::abandoned);
  auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].id == 2);
  CHECK(answers[0].grants[0].grant == Grant::write);
  CHECK(answers[0].grants[0].generation > first[0].generation);
  b.release(4, 2, 1, answers[0].grants[0], Outcome::written);
  answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].id == 3);
  CHECK(answers[0].grants[0].grant == Grant::read);
}

TEST_CASE("patience ends, once, and the block is computed without being kept") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  b.acquire(10, {item(1), item(2)});
  b.probe.run_until(109);
  CHECK(b.probe.sent<BlocksAcquired>().empty());
  b.probe.run_until(110);
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].grants[0].grant == Grant::none);
  CHECK(answers[0].grants[1].grant == Grant::write);
  b.release(111, 1, 1, first[0], Outcome::written);
  CHECK(b.probe.sent<BlocksAcquired>().empty());
}

TEST_CASE("one request that names a block twice does not wait for itself") {
  Bench b;
  const auto grants = b.acquire(0, {item(1), item(1)});
  REQUIRE(grants.size() == 2);
  CHECK(grants[0].grant == Grant::write);
  CHECK(grants[1].grant == Grant::none);
  CHECK(b.acquire(1, {item(1), item(1)}).empty());
  b.release(2, 1, 1, grants[0], Outcome::abandoned);
  const auto heir = b.probe.sent<BlocksAcquired>();
  REQUIRE(heir.size() == 1);
  CHECK(heir[0].grants[0].grant == Grant::write);
  CHECK(heir[0].grants[1].grant == Grant::none);
}

TEST_CASE("a full area gives up the hinted block, and says so") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, user(n));
  const auto grants = b.acquire(10, {user(4)}, {name(2)});
  CHECK(grants.at(0).grant == Grant::write);
  REQUIRE(b.probe.sent<BlockRemoved>().size() == 1);
  CHECK(b.probe.sent<BlockRemoved>()[0].name == name(2));
  CHECK(b.probe.counted(Metric::blocks_evicted_user) == 1);
  CHECK(b.acquire(11, {user(1)}).at(0).grant == Grant::read);
}

TEST_CASE("what the same request reuses is never evicted for what it writes") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, user(n));
  const auto grants = b.acquire(10, {user(9, 12), user(1), user(2), user(3)});
  CHECK(grants.at(0).grant == Grant::none);
  CHECK(b.probe.counted(Metric::blocks_refused) == 1);
  for (std::size_t i : {1, 2, 3}) CHECK(grants.at(i).grant == Grant::read);
}

TEST_CASE("background work takes free room only") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, item(n));
  const auto grants = b.acquire(10, {item(4), item(5)}, {}, false);
  CHECK(grants.at(0).grant == Grant::write);
  CHECK(grants.at(1).grant == Grant::none);
  CHECK(b.probe.sent<BlockRemoved>().empty());
}

TEST_CASE("a doubled request gets the same grants, a doubled or stale release changes nothing") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  b.probe.receive(1, worker, AcquireBlocks{1, 100, {item(1)}});
  REQUIRE(b.probe.sent<BlocksAcquired>().size() == 1);
  CHECK(b.probe.sent<BlocksAcquired>()[0].grants == first);
  b.release(2, 1, 1, first[0], Outcome::written);
  b.release(3, 1, 1, first[0], Outcome::abandoned);
  CHECK(b.probe.effects.list.empty());
  CHECK(b.acquire(4, {item(1)}).at(0).grant == Grant::read);

  const auto other = b.acquire(5, {item(2)});
  b.probe.receive(6, worker,
                  ReleaseBlocks{b.last, {{name(2), other[0].generation - 1, Outcome::written, 5}}});
  CHECK(b.probe.sent<BlockAdded>().empty());
  CHECK(b.acquire(7, {item(2)}).at(0).grant == Grant::write);
}

TEST_CASE("a release that never comes costs the pages until the lease ends") {
  Bench b;
  b.acquire(0, {user(1, 12)});
  CHECK(b.acquire(1, {user(2)}).at(0).grant == Grant::none);
  b.probe.run_until(1'099);
  CHECK(b.acquire(1'099, {user(2)}).at(0).grant == Grant::none);
  b.probe.run_until(1'100);
  CHECK(b.acquire(1'100, {user(2)}).at(0).grant == Grant::write);
}

TEST_CASE("a lost node's grants end at once") {
  Bench b;
  b.probe.receive(0, {2, Role::inference_worker}, AcquireBlocks{1, 100, {item(1)}});
  CHECK(b.acquire(1, {item(1)}).empty());
  b.probe.lose(2, 2);
  CHECK(b.probe.sent<BlocksAcquired>().at(0).grants.at(0).grant == Grant::write);
}

TEST_CASE("a corrupt block is gone for everybody, once its other readers are done") {
  Bench b;
  b.write(0, item(1));
  const auto one = b.acquire(1, {item(1)});
  const auto two = b.acquire(2, {item(1)});
  b.release(3, 2, 1, one[0], Outcome::corrupt);
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  CHECK(b.probe.sent<BlockRemoved>().size() == 1);
  const auto again = b.acquire(4, {item(1)});
  CHECK(again.at(0).grant == Grant::write);
  CHECK(again[0].pages != two[0].pages);
}

TEST_CASE("forgetting an owner removes its blocks, and hands one in the making to who waits for it") {
  Bench b;
  b.write(0, item(1));
  b.probe.receive(1, meta, Forget{SegmentKind::item, "item 1"});
  CHECK(b.probe.sent<BlockRemoved>().size() == 1);
  const auto first = b.acquire(2, {item(1)});
  b.acquire(3, {item(1)});
  b.probe.receive(4, meta, Forget{SegmentKind::item, "item 1"});
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].grants[0].grant == Grant::write);
  CHECK(answers[0].grants[0].pages != first[0].pages);
  b.release(5, 2, 1, first[0], Outcome::written);  // the forgotten one
  CHECK(b.probe.sent<BlockAdded>().empty());
  b.probe.receive(6, worker, Forget{SegmentKind::item, "item 1"});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("an owner is forgotten whole, also when the heir of one of its blocks displaces another") {
  Bench b;
  BlockWant old_content = user(1), new_content = user(2);
  new_content.owner = old_content.owner;
  const auto first = b.acquire(0, {old_content});
  b.acquire(1, {old_content});  // waits
  b.write(2, new_content);
  b.write(3, user(3));
  b.acquire(4, {user(3)});  // pinned: only the new content can make room for the heir
  b.probe.receive(5, meta, Forget{SegmentKind::user, old_content.owner});
  REQUIRE(b.probe.sent<BlocksAcquired>().size() == 1);
  CHECK(b.probe.sent<BlocksAcquired>()[0].grants[0].grant == Grant::write);
  CHECK(b.core.pool().find(name(2)) == nullptr);
}

TEST_CASE("a lost node's requests end, also one that another of them leaves without anything") {
  Bench b;
  const Address far{2, Role::inference_worker};
  b.probe.receive(0, far, AcquireBlocks{1, 100, {item(1)}});
  b.probe.receive(1, far, AcquireBlocks{2, 100, {item(1)}, {}, false});
  b.probe.receive(2, allocator, SetSplit{1, 0, 7});  // no room for items any more
  b.probe.lose(3, 2);
  CHECK(b.core.pool().used(PoolArea::item) == 0);
}

TEST_CASE("the user area's room is told when it changes, and the inventory again and again") {
  Bench b;
  b.probe.start(0);
  CHECK(b.probe.sent<UserArea>().at(0) == UserArea{12, 12});
  b.acquire(1, {user(1, 5)});
  CHECK(b.probe.sent<UserArea>().at(0) == UserArea{4, 12});
  b.write(2, item(2));
  b.probe.run_until(1'000'000);
  CHECK(b.probe.sent<BlockAdded>().size() == 1);
  CHECK(b.probe.sent<PoolReport>().size() == 1);
}

TEST_CASE("a split is taken once per epoch and reported; an impossible one is not") {
  Bench b;
  b.probe.receive(0, allocator, SetSplit{1, 6, 1});
  CHECK(b.probe.sent<PoolReport>().at(0) == PoolReport{1, 0, 0, 6, 1});
  b.probe.receive(1, allocator, SetSplit{1, 2, 2});
  CHECK(b.probe.sent<PoolReport>().at(0) == PoolReport{1, 0, 0, 6, 1});
  b.probe.receive(2, allocator, SetSplit{2, 7, ~std::uint64_t{0}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

}  // namespace
}  // namespace troupe::actors
