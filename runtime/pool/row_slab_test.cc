#include "runtime/pool/row_slab.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace troupe;

namespace {

using Rows = std::vector<std::uint32_t>;

// Slab of two pages of two rows; `ask` returns the state of each row as a letter.
struct Bench {
  RowSlab slab{2, 8};
  Bench() {
    slab.grow(70);
    slab.grow(71);
  }
  std::string ask(const Rows& rows, std::uint32_t table = 1) {
    const RowSlab::Batch batch = slab.look_up(table, rows);
    std::string states;
    for (const RowSlab::Row& row : batch.rows) states += "rfa"[static_cast<std::size_t>(row.state)];
    slab.release(batch);
    CHECK(slab.check_invariants() == "");
    return states;
  }
};

TEST_CASE_FIXTURE(Bench, "row slab: a row is filled once, and ready for later lookups") {
  CHECK(ask({5}) == "f");
  CHECK(ask({5, 6}) == "rf");
  CHECK(ask({6, 5}) == "rr");
  CHECK(slab.counts().hits == 3);
  CHECK(slab.counts().misses == 2);
}

TEST_CASE_FIXTURE(Bench, "row slab: a row named several times in a lookup is in the batch once") {
  const RowSlab::Batch batch = slab.look_up(1, Rows{9, 4, 9, 9});
  CHECK(batch.rows.size() == 2);
  CHECK(batch.index == Rows{0, 1, 0, 0});
  CHECK(slab.counts().misses == 2);
  CHECK(slab.counts().repeats == 2);
}

TEST_CASE_FIXTURE(Bench, "row slab: a miss evicts the least recently used row, never one of its own lookup") {
  ask({1, 2, 3, 4});
  ask({1});
  CHECK(ask({5}) == "f");
  CHECK(ask({1, 3, 4, 5}) == "rrrr");
  CHECK(ask({4, 2, 1}) == "rfr");
  CHECK(ask({4, 2, 1}) == "rrr");
  CHECK(slab.counts().evicted == 2);
}

TEST_CASE_FIXTURE(Bench, "row slab: held rows stay, further ones are absent, and tables do not share rows") {
  const RowSlab::Batch held = slab.look_up(1, Rows{1, 2, 3});
  CHECK(ask({1, 8, 9}) == "afa");  // another lookup fills row 1; one slot is left
  CHECK(ask({8}, 2) == "f");
  slab.release(held);
  CHECK(ask({1, 2, 3}) == "rrr");
  CHECK(ask({8}, 2) == "r");
}

TEST_CASE_FIXTURE(Bench, "row slab: a failed fill leaves no row") {
  slab.release(slab.look_up(1, Rows{1}), false);
  CHECK(slab.rows() == 0);
  CHECK(ask({1}) == "f");
}

TEST_CASE_FIXTURE(Bench, "row slab: dropping a table removes its rows, also held ones") {
  ask({1, 2});
  ask({7}, 2);
  const RowSlab::Batch reader = slab.look_up(1, Rows{1, 3});
  slab.drop(1);
  CHECK(slab.rows() == 1);
  slab.release(reader);
  CHECK(slab.check_invariants() == "");
  CHECK(ask({1, 2, 3}) == "fff");
  CHECK(ask({7}, 2) == "r");
}

TEST_CASE_FIXTURE(Bench, "row slab: a discarded row is no longer found, even while others read it") {
  ask({1});
  const RowSlab::Batch one = slab.look_up(1, Rows{1}), other = slab.look_up(1, Rows{1});
  slab.discard(one.rows[0]);
  slab.discard(other.rows[0]);
  CHECK(ask({1}) == "f");
  slab.release(one);
  slab.release(other);
  CHECK(slab.check_invariants() == "");
  CHECK(slab.counts().discarded == 1);
  CHECK(ask({1}) == "r");
}

TEST_CASE_FIXTURE(Bench, "row slab: shrink frees the pages with the least recently used rows") {
  const RowSlab::Batch first = slab.look_up(1, Rows{1, 2, 3, 4});
  std::map<std::uint32_t, Rows> of_page;
  for (const RowSlab::Row& row : first.rows) of_page[row.place.page].push_back(row.row);
  slab.release(first);
  ask(of_page[71]);
  CHECK(slab.shrink(1) == Rows{70});
  CHECK(slab.check_invariants() == "");
  CHECK(ask(of_page[71]) == "rr");
  CHECK(slab.pages() == 1);
  slab.grow(12);
  CHECK(slab.look_up(1, of_page[70]).rows[0].place.page == 12);
}

TEST_CASE_FIXTURE(Bench, "row slab: shrink does not free a page under a reader") {
  const RowSlab::Batch reader = slab.look_up(1, Rows{1});
  CHECK(slab.shrink(2).size() == 1);
  CHECK(slab.shrink(1).empty());
  slab.release(reader);
  CHECK(slab.shrink(1).size() == 1);
  CHECK(slab.pages() == 0);
  CHECK(slab.check_invariants() == "");
  CHECK(ask({1}) == "a");
}

TEST_CASE_FIXTURE(Bench,
                  "a slab that grows is refilled with the rows that went last, and evicts none for them") {
  ask({1, 2, 3, 4});
  CHECK(ask({7, 8}) == "ff");
  CHECK_FALSE(slab.wants_refill());
  slab.grow(72);
  ask({1});  // row 1 is ready again
  const RowSlab::Batch batch = slab.refill(9);
  CHECK(batch.rows.size() == 1);
  CHECK(batch.rows[0].row == 2);
  slab.release(batch);
  CHECK(slab.counts().refilled == 1);
  CHECK_FALSE(slab.wants_refill());
  CHECK(slab.check_invariants() == "");
}

// Tracks each slot's content from the lookups' answers: a reader gets the row that was filled into
// its slot.
TEST_CASE("row slab: under random operations a ready row has been filled in its slot") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  RowSlab slab(3, 16);
  // page and slot → table and row
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
  std::vector<RowSlab::Batch> held;
  std::set<std::uint32_t> inside;
  for (int step = 0; step < 5'000; ++step) {
    const std::uint32_t what = below(12);
    if (what < 6 && held.size() < 4) {
      Rows rows(below(8));
      for (std::uint32_t& row : rows) row = below(30);
      held.push_back(slab.look_up(below(2), rows));
    } else if (what == 6 && held.size() < 4) {
      held.push_back(slab.refill(below(5)));
    } else if (what == 7) {
      if (const std::uint32_t page = below(20); inside.insert(page).second) slab.grow(page);
    } else if (what == 8) {
      for (const std::uint32_t page : slab.shrink(below(3))) REQUIRE(inside.erase(page) == 1);
    } else if (what == 9 && below(20) == 0) {
      slab.drop(below(2));
    } else if (!held.empty()) {
      const std::size_t which = below(static_cast<std::uint32_t>(held.size()));
      const bool filled = below(4) > 0;
      for (const RowSlab::Row& row : held[which].rows) {
        if (row.state == RowState::absent) continue;
        REQUIRE(inside.contains(row.place.page));
        auto& there = bytes[{row.place.page, row.place.slot}];
        const std::uint64_t right = std::uint64_t{held[which].table} << 32 | row.row;
        if (row.state == RowState::fill) there = right;
        REQUIRE(there == right);
      }
      slab.release(held[which], filled);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    REQUIRE(slab.check_invariants() == "");
    REQUIRE(slab.pages() == inside.size());
  }
}

}  // namespace
