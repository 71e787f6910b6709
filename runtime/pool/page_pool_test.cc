#include "runtime/pool/page_pool.h"

#include <doctest/doctest.h>

#include <random>

using namespace troupe;

namespace page_pool_test {

BlockName named(std::uint32_t n) {
  BlockName name;
  for (int i = 0; i < 4; ++i) name.bytes[i] = static_cast<std::uint8_t>(n >> (8 * i));
  return name;
}

// 10 pages of 4 tokens: 6 for items, 4 for users.
struct SmallPool {
  PagePool pool{pool_sizes(10, 4, {6, 4})};

  // Null if the block is absent or not ready.
  const PoolBlock* pin(std::uint32_t n) {
    const PoolBlock* block = pool.find(named(n));
    if (!block || block->state != BlockState::ready) return nullptr;
    pool.pin(*block);
    return block;
  }
  void unpin(std::uint32_t n) { pool.unpin(*pool.find(named(n))); }
  void use(std::uint32_t n) { pin(n), unpin(n); }
  void set_split(std::uint32_t item_pages, std::uint32_t user_pages) {
    pool.set_split(std::vector<AreaSplit>{{item_pages}, {user_pages}});
  }

  const PoolBlock* reserve(std::uint32_t n, std::uint32_t tokens, SegmentKind kind = SegmentKind::item,
                           std::vector<BlockName> hints = {}) {
    return pool.reserve({named(n), kind, "owner", tokens}, hints);
  }
  std::uint64_t put(std::uint32_t n, std::uint32_t tokens, SegmentKind kind = SegmentKind::item) {
    const PoolBlock* block = reserve(n, tokens, kind);
    REQUIRE(block);
    const std::uint64_t generation = block->generation;
    CHECK(pool.commit(named(n), generation, 100 + n));
    return generation;
  }
  void put_anywhere(std::uint32_t n, std::uint32_t tokens, SegmentKind kind = SegmentKind::item) {
    const PoolBlock* block = pool.reserve_anywhere({named(n), kind, "owner", tokens}, 1);
    REQUIRE(block);
    CHECK(pool.commit(named(n), block->generation, 100 + n));
  }
  std::vector<BlockName> displaced(std::uint32_t tokens, double copy_worth = 1) const {
    std::vector<BlockName> names;
    for (const PoolBlock* block : pool.plan_eviction(SegmentKind::item, tokens, copy_worth).displaced)
      names.push_back(block->name);
    return names;
  }
  std::vector<BlockName> gone() {
    std::vector<BlockName> names;
    for (const RemovedBlock& block : pool.take_removed()) names.push_back(block.name);
    return names;
  }
  bool sound() { return pool.check_invariants().empty(); }
};

using Names = std::vector<BlockName>;

TEST_CASE_FIXTURE(SmallPool, "page pool: a reserved block is found at once, and is ready after its commit") {
  const PoolBlock* block = reserve(1, 9);
  REQUIRE(block);
  CHECK(block->pages.size() == 3);
  CHECK(pool.find(named(1)) == block);
  CHECK(pin(1) == nullptr);
  CHECK(pool.commit(named(1), block->generation, 77));
  REQUIRE(pin(1) == block);
  CHECK(block->checksum == 77);
  CHECK(block->state == BlockState::ready);
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool,
                  "page pool: system and item blocks share the item area, user blocks have the other") {
  put(1, 4, SegmentKind::system);
  put(2, 8, SegmentKind::item);
  put(3, 4, SegmentKind::user);
  CHECK(pool.used(PoolArea::item) == 3);
  CHECK(pool.used(PoolArea::user) == 1);
  CHECK(pool.pages_available(PoolArea::item) == 3);
  CHECK(pool.pages_available(PoolArea::user) == 3);
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a full area evicts the least recently used block") {
  put(1, 8), put(2, 8), put(3, 8);
  use(1);
  put(4, 5);
  CHECK(gone() == Names{named(2)});
  CHECK(pool.find(named(1)));
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool,
                  "page pool: hinted blocks are evicted first, unless pinned, absent or of the other area") {
  put(1, 8), put(2, 8), put(3, 8), put(9, 4, SegmentKind::user);
  pin(3);
  CHECK(reserve(4, 8, SegmentKind::item, {named(9), named(77), named(3), named(2), named(1)}));
  CHECK(gone() == Names{named(2)});
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: reserve_anywhere evicts the least recently used block of any area") {
  put(1, 8, SegmentKind::user);  // two of its four pages
  put(2, 8), put(3, 8), put(4, 8);
  CHECK(displaced(8).empty());
  put_anywhere(5, 8);  // the pages that users have not filled
  CHECK(pool.cap(PoolArea::item) == 8);
  CHECK(gone().empty());
  CHECK(displaced(4) == Names{named(1)});
  use(1);
  CHECK(displaced(12) == Names{named(2), named(3)});
  put_anywhere(6, 12, SegmentKind::user);
  CHECK(gone() == Names{named(2), named(3)});
  CHECK(pool.cap(PoolArea::user) == 5);  // no more than it needs
  put_anywhere(7, 8, SegmentKind::user);
  CHECK(gone() == Names{named(4)});  // it is older than 1
  CHECK(pool.cap(PoolArea::user) == 7);
  CHECK(pool.find(named(1)));
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: the boundary moves only when the reservation succeeds") {
  put(1, 16), put(2, 8, SegmentKind::user);
  pin(1);
  CHECK_FALSE(pool.plan_eviction(SegmentKind::user, 28, 1).possible);
  CHECK(pool.reserve_anywhere({named(3), SegmentKind::user, "", 28}, 1) == nullptr);
  CHECK(pool.reserve_anywhere({named(3), SegmentKind::user, "", 400}, 1) == nullptr);
  CHECK(pool.reserve_anywhere({named(3), SegmentKind::user, "", 0}, 1) == nullptr);
  CHECK(pool.cap(PoolArea::user) == 4);
  CHECK(gone().empty());
  put_anywhere(3, 24, SegmentKind::user);
  CHECK(gone() == Names{named(2)});
  CHECK(pool.cap(PoolArea::user) == 6);
  CHECK(pool.cap(PoolArea::item) == 4);
}

TEST_CASE_FIXTURE(SmallPool,
                  "page pool: copy_worth ages copies, and copies of user blocks are evicted first") {
  put(1, 8), put(2, 8);
  CHECK(pool.commit(named(3), pool.reserve({named(3), SegmentKind::item, "", 4, true, true})->generation, 1));
  put(4, 4, SegmentKind::user);
  // Blocks 1 to 4 were last used 4, 3, 2 and 1 uses ago.
  const auto in_order = [&](double copy_worth) { return displaced(40, copy_worth); };
  CHECK(in_order(1) == Names{named(1), named(2), named(3), named(4)});
  // With 0.6 the copy counts as used 3 1/3 uses ago.
  CHECK(in_order(0.6) == Names{named(1), named(3), named(2), named(4)});
  CHECK(in_order(0) == Names{named(3), named(1), named(2), named(4)});
  CHECK(pool.commit(named(5), pool.reserve({named(5), SegmentKind::user, "", 4, true, true})->generation, 1));
  CHECK(in_order(1) == Names{named(5), named(1), named(2), named(3), named(4)});
  pool.keep(*pool.find(named(5))), pool.keep(*pool.find(named(3)));
  CHECK(in_order(0) == Names{named(1), named(2), named(4), named(5), named(3)});
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: pass_over delays eviction but keeps the age") {
  put(1, 8), put(2, 8), put(3, 8), put(9, 4, SegmentKind::user);
  pool.defer_eviction(*pool.find(named(1)));
  CHECK(displaced(20) == Names{named(2)});
  put(4, 8);
  CHECK(gone() == Names{named(2)});
  pool.defer_eviction(*pool.find(named(3)));
  CHECK(displaced(20) == Names{named(1)});
  CHECK(sound());
}

TEST_CASE("page pool: plan_eviction predicts what reserve_anywhere evicts") {
  std::mt19937 random(5);
  const auto draw = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  int compared = 0, refused = 0;
  for (int run = 0; run < 60; ++run) {
    PagePool pool(pool_sizes(20, 1, {10, 10}));
    std::vector<const PoolBlock*> pins;
    std::uint32_t next = 1;
    for (int step = 0; step < 120; ++step) {
      const SegmentKind kind = draw(2) == 0 ? SegmentKind::item : SegmentKind::user;
      const std::uint32_t tokens = 1 + draw(6);
      const double copy_worth = draw(5) / 4.0;
      const PagePool::EvictionPlan plan = pool.plan_eviction(kind, tokens, copy_worth);
      std::vector<BlockName> would, gone;
      for (const PoolBlock* block : plan.displaced) would.push_back(block->name);
      const std::uint32_t both = pool.cap(PoolArea::item) + pool.cap(PoolArea::user);
      const PoolBlock* block =
          pool.reserve_anywhere({named(next), kind, "o", tokens, false, draw(4) == 0}, copy_worth);
      for (const RemovedBlock& left : pool.take_removed()) gone.push_back(left.name);
      CHECK((block != nullptr) == plan.possible);
      CHECK(would == gone);
      CHECK(pool.cap(PoolArea::item) + pool.cap(PoolArea::user) == both);
      CHECK((block || gone.empty()));
      compared += !gone.empty();
      refused += !block;
      if (block) {
        CHECK(pool.used(area_of(kind)) <= pool.cap(area_of(kind)));
        CHECK(pool.commit(block->name, block->generation, 1));
        if (draw(3) == 0) pool.pin(*pins.emplace_back(block));
      }
      ++next;
      if (!pins.empty() && draw(3) == 0) {
        pool.unpin(*pins.back());
        pins.pop_back();
      }
      if (const PoolBlock* some = pool.find(named(1 + draw(next))); draw(8) == 0 && some) pool.keep(*some);
      if (draw(10) == 0) {
        const std::uint32_t items = draw(21);
        pool.set_split(std::vector<AreaSplit>{{items}, {20 - items}});
      }
    }
    CHECK(pool.check_invariants() == "");
  }
  CHECK(compared > 500);
  CHECK(refused > 50);
}

TEST_CASE_FIXTURE(SmallPool,
                  "page pool: a held block is not evicted and keeps its position in the order of use") {
  const std::uint64_t first = put(1, 8);
  put(2, 8), put(3, 8);
  REQUIRE(pool.hold(first));
  CHECK(pool.hold(first) == nullptr);
  CHECK(pool.hold(99) == nullptr);
  put(4, 8);
  CHECK(gone() == Names{named(2)});
  CHECK(displaced(20) == Names{named(3)});
  CHECK(reserve(5, 20) == nullptr);
  pool.release_hold(first);
  put(5, 8);
  CHECK(gone() == Names{named(1)});
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a block removed while held frees its pages on let_go") {
  const std::uint64_t generation = put(1, 24);
  pool.hold(generation);
  CHECK(pool.remove(named(1)));
  CHECK(pool.free_pages() == 4);
  CHECK(sound());
  pool.release_hold(generation);
  CHECK(pool.free_pages() == 10);
  CHECK(sound());
}

// Items and system prompts: 4 pages; users: 4 pages, of which at most 2 are lent; other kinds: 2
// pages.
struct ThreeAreas {
  static constexpr PoolArea items{0}, users{1}, others{2};
  static constexpr KindSet rest =
      kinds(SegmentKind::instruction, SegmentKind::discriminant, SegmentKind::beam);
  PagePool pool{{10,
                 4,
                 {{kinds(SegmentKind::system, SegmentKind::item), {4, 0}},
                  {kinds(SegmentKind::user), {4, 2}},
                  {rest, {2, 0}}}}};

  bool put(std::uint32_t n, SegmentKind kind, std::uint32_t pages, bool anywhere) {
    const PagePool::Want want{named(n), kind, "owner", pages * 4};
    const PoolBlock* block = anywhere ? pool.reserve_anywhere(want, 1) : pool.reserve(want);
    CHECK(pool.check_invariants() == "");
    return block && pool.commit(named(n), block->generation, 1);
  }
  std::vector<std::uint32_t> caps() const { return {pool.cap(items), pool.cap(users), pool.cap(others)}; }
  Names gone() {
    Names names;
    for (const RemovedBlock& block : pool.take_removed()) names.push_back(block.name);
    return names;
  }
};

TEST_CASE_FIXTURE(ThreeAreas, "page pool: an area borrows from all others, within what each may lend") {
  for (std::uint32_t n = 1; n <= 4; ++n) CHECK(put(n, SegmentKind::user, 1, false));
  CHECK(put(5, SegmentKind::beam, 2, false));
  CHECK(put(6, SegmentKind::item, 4, false));
  CHECK(put(7, SegmentKind::item, 3, true));
  // The users keep two pages, though those blocks are older.
  CHECK(gone() == Names{named(1), named(2), named(5)});
  CHECK(caps() == std::vector<std::uint32_t>{7, 2, 1});
  CHECK(put(8, SegmentKind::item, 2, true));
  CHECK(gone() == Names{named(6)});
  CHECK_FALSE(put(9, SegmentKind::item, 9, true));
  CHECK_FALSE(pool.plan_eviction(SegmentKind::item, 36, 1).possible);
  CHECK(put(10, SegmentKind::user, 4, true));
  CHECK(gone() == Names{named(3)});
  CHECK(caps() == std::vector<std::uint32_t>{5, 5, 0});
  CHECK(put(11, SegmentKind::beam, 2, true));
  CHECK(gone() == Names{named(4), named(7)});
  CHECK(caps() == std::vector<std::uint32_t>{3, 5, 2});
}

TEST_CASE_FIXTURE(ThreeAreas, "page pool: an area above its cap gives up pages for any other area") {
  CHECK(put(1, SegmentKind::beam, 2, true));
  CHECK(put(2, SegmentKind::item, 4, true));
  CHECK(put(3, SegmentKind::item, 2, true));
  pool.set_split(std::vector<AreaSplit>{{2, 0}, {8, 0}, {0, 0}});
  CHECK(put(4, SegmentKind::user, 8, false));
  CHECK(gone() == Names{named(2), named(1)});
}

TEST_CASE_FIXTURE(SmallPool, "page pool: the pages an area keeps are capped at its size") {
  pool.set_split(std::vector<AreaSplit>{{2, 9}, {8, 0}});
  CHECK(sound());
}

TEST_CASE("page pool: a merged area has no blocks, and those of its kinds share the pages of the other") {
  PagePoolSizes sizes = pool_sizes(10, 4, {0, 7, 3});
  merge_area(sizes, PoolArea::item, PoolArea::user);
  PagePool pool(sizes);
  CHECK(pool.area_of(SegmentKind::system) == PoolArea::user);
  CHECK(pool.area_of(SegmentKind::item) == PoolArea::user);
  CHECK(pool.has_rows());
  const auto put = [&](std::uint32_t n, SegmentKind kind, std::uint32_t pages) {
    const PoolBlock* block = pool.reserve({named(n), kind, "", pages * 4});
    return block && pool.commit(named(n), block->generation, 1) && pool.check_invariants().empty();
  };
  CHECK(put(1, SegmentKind::system, 1));
  CHECK(put(2, SegmentKind::user, 6));
  pool.pin(*pool.find(named(1)));
  pool.unpin(*pool.find(named(1)));
  CHECK(put(3, SegmentKind::item, 2));  // evicts the block used least recently, of whatever kind
  CHECK(pool.find(named(2)) == nullptr);
  CHECK(pool.find(named(1)) != nullptr);
  CHECK(pool.used(PoolArea::user) == 3);
  CHECK(pool.used(PoolArea::item) == 0);
  CHECK(pool.cap(PoolArea::item) == 0);
}

TEST_CASE("pool areas: every kind of block has one area, and user blocks have their own") {
  for (int kind = 0; kind <= static_cast<int>(SegmentKind::beam); ++kind) {
    int areas = 0;
    for (const AreaRow& row : area_table) areas += static_cast<int>(row.kinds >> kind & 1);
    CHECK(areas == 1);
  }
  CHECK(area_of(SegmentKind::user) == PoolArea::user);
  CHECK(area_of(SegmentKind::system) == PoolArea::item);
}

TEST_CASE("pool areas: shares are sized in order, and the area without one gets the remainder") {
  const auto split = [](std::vector<double> shares) { return split_pages(101, shares); };
  CHECK(split({0.25, remaining_pages}) == std::vector<std::uint32_t>{25, 76});
  CHECK(split({0.5, remaining_pages, 0.25}) == std::vector<std::uint32_t>{50, 26, 25});
  CHECK(split({0.7, 0.7, remaining_pages}) == std::vector<std::uint32_t>{70, 31, 0});
}

TEST_CASE_FIXTURE(SmallPool, "page pool: copies are evicted first in their area, however recently used") {
  put(1, 8), put(2, 8);
  const PoolBlock* copy = pool.reserve({named(3), SegmentKind::item, "", 8, true, true});
  REQUIRE(copy);
  CHECK(pool.commit(named(3), copy->generation, 1));
  use(3);
  put(4, 8);
  CHECK(gone() == Names{named(3)});
  put(5, 8);
  CHECK(gone() == Names{named(1)});
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: hinted blocks stay while pages are free") {
  put(1, 8);
  CHECK(reserve(2, 16, SegmentKind::item, {named(1)}));
  CHECK(pool.take_removed().empty());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a reservation that cannot fit evicts nothing") {
  put(1, 8), put(2, 8);
  pin(2);
  CHECK(reserve(3, 20) == nullptr);  // 5 pages; 4 are available
  CHECK(reserve(3, 25) == nullptr);  // more than the area has
  CHECK(reserve(3, 0) == nullptr);
  CHECK(reserve(3, 0xFFFFFFFF) == nullptr);
  CHECK(pool.take_removed().empty());
  CHECK(reserve(3, 16) != nullptr);
  CHECK(gone() == Names{named(1)});
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a block that is being written or loaded is never evicted") {
  CHECK(reserve(1, 12));
  CHECK(pool.reserve({named(2), SegmentKind::item, "", 12, true})->state == BlockState::loading);
  CHECK(reserve(3, 4) == nullptr);
  CHECK(pool.abandon(named(1), pool.find(named(1))->generation));
  CHECK(reserve(3, 4));
  CHECK(pool.take_removed().empty());  // an abandoned block was never announced
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a stale generation is rejected") {
  const std::uint64_t old = put(1, 4);
  CHECK(pool.remove(named(1)));
  const std::uint64_t now = reserve(1, 4)->generation;
  CHECK(now > old);
  CHECK_FALSE(pool.commit(named(1), old, 5));
  CHECK_FALSE(pool.abandon(named(1), old));
  CHECK_FALSE(pool.remove(named(1), old));
  CHECK_FALSE(pool.commit(named(2), now, 5));  // right generation, wrong name
  CHECK(pool.commit(named(1), now, 5));
  CHECK_FALSE(pool.commit(named(1), now, 6));
  CHECK_FALSE(pool.abandon(named(1), now));  // it is ready, so no longer the writer's
  CHECK(pool.find(named(1))->checksum == 5);
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool,
                  "a removed block cannot be found, but its pages stay until the last reader leaves") {
  put(1, 24);
  const PoolBlock& old = *pin(1);
  pin(1);
  CHECK(pool.remove(named(1)));
  CHECK(pool.find(named(1)) == nullptr);
  CHECK(gone() == Names{named(1)});
  pool.unpin(old);
  CHECK(reserve(1, 4) == nullptr);
  pool.unpin(old);
  CHECK(reserve(1, 24));
  CHECK(pool.take_removed().empty());
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool,
                  "page pool: a block removed under its writer is not kept when the writer commits") {
  const std::uint64_t old = reserve(1, 24)->generation;
  CHECK(pool.remove(named(1)));
  CHECK(pool.free_pages() == 4);
  const auto stays_out = pool.reserve({named(1), SegmentKind::user, "", 4});
  REQUIRE(stays_out);
  CHECK_FALSE(pool.commit(named(1), old, 1));
  CHECK(pool.free_pages() == 9);
  CHECK(pool.find(named(1)) == stays_out);
  CHECK(pool.take_removed().empty());
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool,
                  "a smaller split evicts nothing until pages are asked for, then down to the cap") {
  put(1, 8), put(2, 8), put(3, 8);
  set_split(2, 8);
  CHECK(pool.take_removed().empty());
  CHECK(pool.pages_available(PoolArea::item) == 0);
  put(4, 4);
  CHECK(gone() == Names{named(1), named(2), named(3)});  // 2 pages above the cap, one for the new block
  CHECK(pool.used(PoolArea::item) == 1);
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: a grown area takes only the shrunk area's pages above its cap") {
  put(1, 8), put(2, 8), put(3, 8);
  set_split(2, 8);
  put(4, 24, SegmentKind::user);  // 4 pages are free, 6 are needed
  CHECK(gone() == Names{named(1)});
  put(5, 8, SegmentKind::user);
  CHECK(gone() == Names{named(2)});
  put(6, 4, SegmentKind::user);  // the user area itself is full
  CHECK(gone() == Names{named(4)});
  CHECK(pool.find(named(3)));
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: pinned pages above the cap are not available") {
  put(1, 24);
  pin(1);
  set_split(2, 8);
  CHECK(reserve(2, 20, SegmentKind::user) == nullptr);
  CHECK(reserve(2, 16, SegmentKind::user));
  CHECK(reserve(3, 4) == nullptr);
  CHECK(sound());
}

TEST_CASE_FIXTURE(SmallPool, "page pool: an owner's blocks are listed oldest first") {
  put(5, 4), put(3, 4), put(4, 4, SegmentKind::user);
  reserve(1, 4);
  CHECK(pool.names_of(SegmentKind::item, "owner") == Names{named(5), named(3), named(1)});
  CHECK(pool.names_of(SegmentKind::user, "owner") == Names{named(4)});
  CHECK(pool.names_of(SegmentKind::item, "nobody").empty());
}

TEST_CASE_FIXTURE(SmallPool,
                  "the inventory comes in parts: ready blocks above a generation, in order of it") {
  put(5, 4), reserve(1, 4), put(3, 4), put(4, 4, SegmentKind::user);
  const auto part = [&](std::uint64_t after, std::size_t count) {
    Names ready;
    for (const PoolBlock* block : pool.ready_after(after, count)) ready.push_back(block->name);
    return ready;
  };
  CHECK(part(0, 10) == Names{named(5), named(3), named(4)});
  CHECK(part(0, 2) == Names{named(5), named(3)});
  const std::uint64_t third = pool.find(named(3))->generation;
  CHECK(part(third, 2) == Names{named(4)});
  pin(4);
  CHECK(part(third - 1, 2) == Names{named(3), named(4)});
  pool.remove(named(4));  // no longer found by name, though its pages are still read
  CHECK(part(third, 2).empty());
}

TEST_CASE("page pool: generations start at first_generation, so older ones are unknown") {
  PagePool before(pool_sizes(4, 4, {4, 0})), after(pool_sizes(4, 4, {4, 0}), 1000);
  const std::uint64_t old = before.reserve({named(1), SegmentKind::item, "", 4})->generation;
  CHECK(after.reserve({named(1), SegmentKind::item, "", 4})->generation == 1000);
  CHECK_FALSE(after.commit(named(1), old, 7));
  CHECK(after.reserve({named(2), SegmentKind::item, "", 4})->generation == 1001);
}

}  // namespace page_pool_test
