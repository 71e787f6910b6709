#include "actors/kv_worker/kv_worker_core.h"

#include "actors/testing/kv_worker_test.h"
#include "runtime/testing/accepted_senders.h"

namespace troupe::actors {
namespace {

using namespace kv_worker_test;

TEST_CASE("kv worker: accepts messages from the expected senders and counts all else as errors") {
  const auto receive = [](Address from, const Message& message) {
    Bench b;
    b.probe.start();
    b.probe.receive(1, from, message);
    return b.probe.effects;
  };
  CHECK(accepted_senders(1, receive) == R"(BlocksFound: cache_meta here, cache_meta elsewhere
AcquireBlocks: inference_worker here
BlocksAcquired: kv_worker elsewhere
ReleaseBlocks: everybody
InventoryRequest: cache_meta here, cache_meta elsewhere
LeaderBeat: cache_meta here, cache_meta elsewhere
Drain: door here
StatusRequest: everybody
)");
}

TEST_CASE("kv worker: an absent block is granted for writing, and once written all requests read it") {
  Bench b;
  const auto first = b.acquire(0, {item(1, 5)});
  REQUIRE(first.size() == 1);
  CHECK(first[0].grant == Grant::write);
  CHECK(first[0].pages.size() == 2);
  b.release(1, 1, 1, first[0], Outcome::written);
  REQUIRE(b.sent_changes().added.size() == 1);
  CHECK(b.sent_changes().added[0] ==
        BlockEntry{name(1), SegmentKind::item, "item 1", 5, first[0].generation});
  const auto second = b.acquire(2, {item(1, 5)});
  CHECK(second.at(0).grant == Grant::read);
  CHECK(second[0].checksum == 77);
  CHECK(second[0].pages == first[0].pages);
}

TEST_CASE("kv worker: a request for a block being written waits for it, and for nothing else") {
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

TEST_CASE("kv worker: when a writer gives up, the first waiter writes and the next waits for it") {
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

TEST_CASE("kv worker: a first waiter that finds no pages does not keep those behind it from writing") {
  Bench b;
  const auto first = b.acquire(0, {item(1)});
  for (const std::uint8_t n : {2, 3, 4}) b.write(n, item(n));
  b.acquire(10, {item(1)}, {}, false);  // may not evict
  b.acquire(11, {item(1)});
  b.forget(12, {SegmentKind::item, "item 1", 1});  // its page stays with its writer
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].id == b.last - 1);
  CHECK(answers[0].grants[0].grant == Grant::none);
  CHECK(answers[1].id == b.last);
  CHECK(answers[1].grants[0].grant == Grant::write);
}

TEST_CASE("kv worker: a block of another length or kind under the wanted name is not granted") {
  Bench b;
  b.write(0, item(1));
  CHECK(b.acquire(1, {item(1, 3)}).at(0).grant == Grant::none);
  CHECK(b.acquire(2, {item(1, 8)}).at(0).grant == Grant::none);
  CHECK(b.acquire(3, {user(1)}).at(0).grant == Grant::none);
  CHECK(b.acquire(4, {item(1)}).at(0).grant == Grant::read);
}

TEST_CASE("kv worker: a wait deadline ends once, and the block is then computed without being kept") {
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

TEST_CASE("kv worker: a request that names a block twice does not wait for itself") {
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

TEST_CASE("kv worker: a full area evicts the hinted block and reports it") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, user(n));
  const auto grants = b.acquire(10, {user(4)}, {name(2)});
  CHECK(grants.at(0).grant == Grant::write);
  REQUIRE(b.sent_changes().removed.size() == 1);
  CHECK(b.sent_changes().removed[0].name == name(2));
  CHECK(b.probe.counted(Metric::blocks_evicted_user) == 1);
  CHECK(b.acquire(11, {user(1)}).at(0).grant == Grant::read);
}

TEST_CASE("kv worker: a block that a request reuses is never evicted for what it writes") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, user(n));
  const auto grants = b.acquire(10, {user(9, 12), user(1), user(2), user(3)});
  CHECK(grants.at(0).grant == Grant::none);
  CHECK(b.probe.counted(Metric::blocks_refused) == 1);
  for (std::size_t i : {1, 2, 3}) CHECK(grants.at(i).grant == Grant::read);
}

TEST_CASE("kv worker: with keep_hotter a new block does not evict blocks wanted more often") {
  Bench b;
  const auto want = [&](std::uint8_t n) {
    AcquireBlocks ask{++b.last, 100, {item(n)}};
    ask.retention.keep_hotter = true;
    b.probe.receive(0, worker, ask);
    const BlockGrant grant = b.granted().at(0);
    if (grant.grant != Grant::none)
      b.release(0, b.last, n, grant, grant.grant == Grant::write ? Outcome::written : Outcome::done);
    return grant.grant;
  };
  b.write(0, user(9, 12));                                                  // the user area is full, too
  for (std::uint8_t n = 1; n <= 4; ++n) CHECK(want(n) == Grant::write);     // the item area is full
  b.probe.receive(0, worker, AcquireBlocks{++b.last, 100, {user(9, 12)}});  // pinned by a reader
  for (std::uint8_t n : {2, 3, 4}) CHECK(want(n) == Grant::read);
  // Wanted once, as the oldest was: that one stays and is now the youngest.
  CHECK(want(5) == Grant::none);
  CHECK(want(6) == Grant::none);  // against a block wanted twice
  CHECK(want(1) == Grant::read);
  CHECK(want(5) == Grant::none);   // twice, against twice
  CHECK(want(5) == Grant::write);  // three times
  CHECK(b.core.pool().find(name(1)) != nullptr);
  // Without keep_hotter it evicts any block.
  CHECK(b.acquire(0, {item(7)}).at(0).grant == Grant::write);
}

TEST_CASE("kv worker: with keep_hotter both areas are one, and the least recently used block is evicted") {
  Bench b;
  const auto want = [&](const BlockWant& block) {
    AcquireBlocks ask{++b.last, 100, {block}};
    ask.retention.keep_hotter = true;
    b.probe.receive(0, worker, ask);
    const BlockGrant grant = b.granted().at(0);
    const Outcome outcome = grant.grant == Grant::write ? Outcome::written : Outcome::done;
    b.probe.receive(0, worker, ReleaseBlocks{b.last, {{block.name, grant.generation, outcome, 77}}});
    return grant.grant;
  };
  const PagePool& pool = b.core.pool();
  // Also in the users' pages.
  for (std::uint8_t n = 1; n <= 7; ++n) CHECK(want(item(n)) == Grant::write);
  CHECK(pool.cap(PoolArea::user) == 0);
  CHECK(want(user(11, 8)) == Grant::write);
  CHECK(want(user(12, 8)) == Grant::write);
  for (std::uint8_t n = 1; n <= 4; ++n) CHECK(pool.find(name(n)) == nullptr);
  CHECK(pool.cap(PoolArea::user) == 4);
  for (std::uint8_t n = 5; n <= 7; ++n) CHECK(want(item(n)) == Grant::read);
  CHECK(want(user(13, 8)) == Grant::write);  // user blocks are older than the items
  CHECK(pool.find(name(11)) == nullptr);
  CHECK(pool.used(PoolArea::item) == 3);
  CHECK(want(item(8)) == Grant::none);  // wanted as often as 12, and less than 5
  CHECK(want(item(8)) == Grant::write);
  CHECK(pool.find(name(12)) == nullptr);
  CHECK(pool.cap(PoolArea::item) == 4);
  // Without keep_hotter a block stays in its area.
  CHECK(b.acquire(0, {user(12, 16)}).at(0).grant == Grant::none);
}

TEST_CASE(
    "kv worker: with keep_hotter a large item must be hotter than all blocks it would evict, not only the "
    "first") {
  Bench b;
  const auto want = [&](const BlockWant& block) {
    AcquireBlocks ask{++b.last, 100, {block}};
    ask.retention.keep_hotter = true;
    b.probe.receive(0, worker, ask);
    const BlockGrant grant = b.granted().at(0);
    const Outcome outcome = grant.grant == Grant::write ? Outcome::written : Outcome::done;
    b.probe.receive(0, worker, ReleaseBlocks{b.last, {{block.name, grant.generation, outcome, 77}}});
    return grant.grant;
  };
  CHECK(want(user(11, 8)) == Grant::write);
  for (int i = 0; i < 4; ++i)
    for (std::uint8_t n = 1; n <= 5; ++n) want(item(n));
  for (int i = 0; i < 2; ++i) CHECK(want(item(9, 12)) == Grant::none);
  CHECK(want(item(9, 12)) == Grant::write);  // 3 · 12 against 1 · 8 and 4 · 4
  CHECK(b.core.pool().find(name(11)) == nullptr);
}

TEST_CASE("kv worker: background work takes free pages only") {
  Bench b;
  for (std::uint8_t n : {1, 2, 3}) b.write(n, item(n));
  const auto grants = b.acquire(10, {item(4), item(5)}, {}, false);
  CHECK(grants.at(0).grant == Grant::write);
  CHECK(grants.at(1).grant == Grant::none);
  CHECK(b.sent_changes().removed.empty());
}

TEST_CASE(
    "kv worker: a duplicate request gets the same grants, a duplicate or stale release changes nothing") {
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
  CHECK(b.sent_changes().added.empty());
  CHECK(b.acquire(7, {item(2)}).at(0).grant == Grant::write);
}

TEST_CASE("kv worker: a release counts only for the block with its full name") {
  Bench b;
  const auto grants = b.acquire(0, {item(1)});
  b.release(1, 1, 2, grants.at(0), Outcome::written);  // this generation, another name
  CHECK(b.sent_changes().added.empty());
  CHECK(b.core.pool().free_pages() == 7);
}

TEST_CASE("kv worker: grants of this node last until they are released, whichever node is lost") {
  Bench b;
  const auto held = b.acquire(0, {user(1, 12)});
  b.probe.lose(1, 2);
  b.probe.run_until(3'600'000'000);
  CHECK(b.acquire(3'600'000'000, {user(2)}).at(0).grant == Grant::none);
  b.release(3'600'000'001, 1, 1, held.at(0), Outcome::abandoned);
  CHECK(b.acquire(3'600'000'002, {user(2)}).at(0).grant == Grant::write);
}

TEST_CASE("kv worker: only this node's inference worker is granted blocks to write") {
  Bench b;
  AcquireBlocks ask{1, 100, {item(1)}};
  b.probe.receive(0, {2, Role::inference_worker}, ask);
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(1, far, ask);
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  ask.read_only = true;
  b.probe.receive(2, {1, Role::kv_worker}, ask);
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK(b.probe.sent<BlocksAcquired>().empty());
  CHECK(b.core.pool().free_pages() == 7);
}

TEST_CASE(
    "kv worker: on a node with several models each model's inference worker is granted pages, and no other") {
  KvWorkerConfig config = Bench::small();
  config.models = {1, 3};
  Bench b(config);
  AcquireBlocks ask{1, 100, {item(1)}};
  b.probe.receive(0, {3, Role::inference_worker}, ask);
  CHECK(b.granted().at(0).grant == Grant::write);
  CHECK(b.probe.recipients().front() == Address{3, Role::inference_worker});
  b.probe.receive(1, {2, Role::inference_worker}, ask);
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(2, {3, Role::inference_worker}, ReleaseBlocks{1, {}});
}

TEST_CASE("kv worker: ended waits do not pile up behind a block that is never finished") {
  KvWorkerConfig config = Bench::small();
  config.requests_max = 3;
  Bench b(config);
  b.acquire(0, {item(1)});
  for (std::int64_t us = 1; us < 2'000; us += 150) {
    CHECK(b.acquire(us, {item(1)}).empty());
    b.probe.run_until(us + 100);
    CHECK(b.granted().at(0).grant == Grant::none);
    CHECK(b.core.check_bounds() == "");
  }
}

TEST_CASE("kv worker: with too many requests a new one is refused, block by block") {
  KvWorkerConfig config = Bench::small();
  config.requests_max = 1;
  Bench b(config);
  CHECK(b.acquire(0, {item(1)}).at(0).grant == Grant::write);
  const auto refused = b.acquire(1, {item(2), item(3)});
  CHECK(b.probe.counted(Metric::blocks_refused) == 2);
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].grant == Grant::none);
  CHECK(refused[1].grant == Grant::none);
}

TEST_CASE("kv worker: a corrupt block is removed, and its pages are freed after its other readers") {
  Bench b;
  b.write(0, item(1));
  const auto one = b.acquire(1, {item(1)});
  const auto two = b.acquire(2, {item(1)});
  b.release(3, 2, 1, one[0], Outcome::corrupt);
  CHECK(b.probe.counted(Metric::blocks_corrupt) == 1);
  CHECK(b.sent_changes().removed.size() == 1);
  const auto again = b.acquire(4, {item(1)});
  CHECK(again.at(0).grant == Grant::write);
  CHECK(again[0].pages != two[0].pages);
}

TEST_CASE(
    "kv worker: forgetting an owner removes its blocks, and a waiter writes one that was being written") {
  Bench b;
  b.write(0, item(1));
  b.forget(1, Forget{SegmentKind::item, "item 1", 1});
  CHECK(b.sent_changes().removed.size() == 1);
  const auto first = b.acquire(2, {item(1)});
  b.acquire(3, {item(1)});
  b.forget(4, Forget{SegmentKind::item, "item 1", 1});
  const auto answers = b.probe.sent<BlocksAcquired>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].grants[0].grant == Grant::write);
  CHECK(answers[0].grants[0].pages != first[0].pages);
  b.release(5, 2, 1, first[0], Outcome::written);  // the forgotten block
  CHECK(b.sent_changes().added.empty());
  b.probe.receive(6, worker, Forget{SegmentKind::item, "item 1", 1});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("kv worker: a late Forget keeps the block of the new content, ready or being written") {
  Bench b;
  BlockWant old_content = item(1), made = item(2), in_the_making = item(3);
  made.owner = in_the_making.owner = old_content.owner;
  b.write(0, old_content);
  b.write(1, made);
  b.forget(2, Forget{SegmentKind::item, old_content.owner, 1, name(2)});
  CHECK(b.core.pool().find(name(1)) == nullptr);
  CHECK(b.core.pool().find(name(2)) != nullptr);
  const auto writing = b.acquire(3, {in_the_making});
  b.forget(4, Forget{SegmentKind::item, old_content.owner, 1, name(3)});
  b.release(5, b.last, 3, writing[0], Outcome::written);
  CHECK(b.core.pool().find(name(2)) == nullptr);
  CHECK(b.core.pool().find(name(3)) != nullptr);
}

TEST_CASE("kv worker: Forget with `below` removes only an owner's shorter blocks") {
  Bench b;
  BlockWant part = user(1), end = user(2);
  part.tokens = 4, end.tokens = 3;
  end.owner = part.owner;
  b.write(0, part);
  b.write(1, end);
  b.forget(2, Forget{.kind = SegmentKind::user, .owner = part.owner, .token = 1, .below = 4});
  CHECK(b.core.pool().find(name(1)) != nullptr);
  CHECK(b.core.pool().find(name(2)) == nullptr);
  b.forget(3, Forget{.kind = SegmentKind::user, .owner = part.owner, .token = 1});
  CHECK(b.core.pool().find(name(1)) == nullptr);
}

TEST_CASE("kv worker: an owner is forgotten whole, also if a new writer of one block evicts another") {
  Bench b;
  BlockWant old_content = user(1), new_content = user(2);
  new_content.owner = old_content.owner;
  const auto first = b.acquire(0, {old_content});
  b.acquire(1, {old_content});  // waits
  b.write(2, new_content);
  b.write(3, user(3));
  b.acquire(4, {user(3)});  // pinned: only the new content can be evicted for the new writer
  b.forget(5, Forget{SegmentKind::user, old_content.owner, 1});
  REQUIRE(b.probe.sent<BlocksAcquired>().size() == 1);
  CHECK(b.probe.sent<BlocksAcquired>()[0].grants[0].grant == Grant::write);
  CHECK(b.core.pool().find(name(2)) == nullptr);
}

TEST_CASE(
    "kv worker: a split for this process is taken once per epoch and reported; an impossible one is not") {
  Bench b;
  b.probe.receive(0, allocator, SetSplit{1, 1, {{6}, {1}}});
  CHECK(b.probe.sent<PoolReport>().at(0) == PoolReport{1, 1, {{6}, {1}}});
  b.probe.receive(1, allocator, SetSplit{1, 1, {{2}, {2}}});
  CHECK(b.probe.sent<PoolReport>().at(0) == PoolReport{1, 1, {{6}, {1}}});
  b.probe.receive(2, allocator, SetSplit{0, 2, {{2}, {2}}});
  CHECK(b.probe.sent<PoolReport>().at(0) == PoolReport{1, 1, {{6}, {1}}});
  b.probe.receive(3, allocator, SetSplit{1, 2, {{7}, {~std::uint64_t{0}}}});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
}

TEST_CASE("kv worker: a release for an earlier process matches no grant of the next") {
  Bench old;
  KvWorkerConfig config = Bench::small();
  config.incarnation = 1'000;
  Bench b(config);
  const auto before = old.acquire(0, {item(1)});
  const auto after = b.acquire(0, {item(1)});
  CHECK(b.probe.sent<BlocksAcquired>().at(0).incarnation == 1'000);
  CHECK(after.at(0).generation >= 1'000);
  b.release(1, 1, 1, before.at(0), Outcome::written);
  CHECK(b.core.pool().find(name(1)) == nullptr);
  b.acquire(2, {at(2, item(2))});
  CHECK(b.probe.sent<AcquireBlocks>().at(0).id >= 1'000);
}

}  // namespace
}  // namespace troupe::actors
