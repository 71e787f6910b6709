#include "actors/kv_worker/row_lending.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace troupe::actors::row_lending_test {  // separate from other test benches in this executable
namespace {

using Pages = std::vector<std::uint32_t>;

// Eight pages: two for items, two for users, four for the rows of two models, three at a time.
struct Bench {
  PagePool pool{pool_sizes(8, 4, {2, 2, 4})};
  RowLending lending{{.borrowers = {7, 8}, .pages_at_once = 3, .retry = {100}}, 5, 8};

  std::vector<std::pair<NodeId, LendPages>> next(std::int64_t us, bool ask = false) {
    return lending.next({us}, pool, ask);
  }
  bool answer(std::int64_t us, NodeId from, std::uint64_t number, Pages given_back = {}) {
    return lending.answer({us}, from, {5, number, std::move(given_back), 10, 20}, pool);
  }
  void split(std::uint64_t items, std::uint64_t users, std::uint64_t rows) {
    pool.set_split(std::vector<AreaSplit>{{items, 0}, {users, 0}, {rows, 0}});
  }
  ~Bench() { CHECK(pool.check_invariants() == ""); }
};

TEST_CASE_FIXTURE(
    Bench, "row lending: all borrowers get the same share, and a message is repeated until it is answered") {
  const auto first = next(0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].first == 7);
  CHECK(first[0].second.pages.size() == 2);
  CHECK(first[1].second.pages.size() == 2);
  CHECK(pool.free_pages() == 4);
  CHECK(answer(1, 7, 1));
  CHECK(next(50).empty());
  const auto again = next(100);
  REQUIRE(again.size() == 1);
  CHECK(again[0] == first[1]);
  CHECK_FALSE(lending.settled(pool));
  CHECK(answer(101, 8, 1));
  CHECK(answer(102, 8, 1));  // duplicate
  CHECK(lending.settled(pool));
  AreaReport rows;
  lending.add_to(rows);
  CHECK(rows.hits == 20);
  CHECK(rows.misses == 40);
}

TEST_CASE_FIXTURE(
    Bench,
    "row lending: each borrower has a part of the area, and its savings curve is stretched accordingly") {
  next(0);
  std::vector<double> savings(101);
  for (std::size_t cell = 0; cell < savings.size(); ++cell)
    savings[cell] = static_cast<double>(std::min<std::size_t>(cell, 30));
  for (const NodeId node : {7U, 8U}) CHECK(lending.answer({1}, node, {5, 1, {}, 10, 20, 5, savings}, pool));
  AreaReport rows;
  lending.add_to(rows);
  CHECK(rows.saved_us == 10);
  CHECK(rows.savings.at(20) == 20);
  CHECK(rows.savings.at(80) == 60);
}

TEST_CASE_FIXTURE(
    Bench,
    "row lending: a shrinking area's pages return when given back, and are demanded again after a pause") {
  const auto lent = next(0);
  answer(1, 7, 1);
  answer(1, 8, 1);
  split(4, 2, 2);
  const auto asked = next(2);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].second.give_back == 1);
  CHECK(answer(3, 7, 2, {lent[0].second.pages[0]}));
  CHECK(answer(3, 8, 2));  // rows that are being read prevent it
  CHECK(pool.free_pages() == 5);
  CHECK(next(50).empty());
  REQUIRE(next(103).size() == 1);
  CHECK(answer(104, 8, 3, {lent[1].second.pages[1]}));
  CHECK(lending.settled(pool));
  CHECK(pool.used(PoolArea::row) == 2);
}

TEST_CASE_FIXTURE(Bench,
                  "row lending: a growing area takes free pages, and blocks of areas over their share") {
  for (std::uint8_t n = 1; n <= 2; ++n) {
    BlockName name;
    name.bytes[0] = n;
    const PoolBlock* block = pool.reserve({name, SegmentKind::item, "i", 4});
    pool.commit(name, block->generation, 0);
  }
  next(0);
  answer(1, 7, 1);
  answer(1, 8, 1);
  split(0, 0, 8);
  const auto before = pool.page_hashes();
  const auto more = next(2);
  REQUIRE(more.size() == 2);
  CHECK(more[0].second.pages.size() + more[1].second.pages.size() == 4);
  CHECK(pool.used(PoolArea::item) == 0);  // both were evicted
  CHECK(pool.pages_moved_since(before) == 0);
}

TEST_CASE_FIXTURE(Bench,
                  "row lending: an answer with pages of another borrower is rejected and changes nothing") {
  const auto lent = next(0);
  CHECK_FALSE(answer(1, 7, 1, {lent[1].second.pages[0]}));
  CHECK_FALSE(answer(1, 7, 1, {lent[0].second.pages[0], lent[0].second.pages[0]}));
  CHECK_FALSE(answer(1, 7, 1, {99}));
  CHECK_FALSE(answer(1, 9, 1));
  CHECK(lending.lent() == 4);
}

TEST_CASE_FIXTURE(Bench, "row lending: a borrower with its full share is asked for its statistics") {
  next(0);
  answer(1, 7, 1);
  answer(1, 8, 1);
  CHECK(next(2).empty());
  const auto asked = next(3, true);
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].second.number == 2);
  CHECK(asked[0].second.pages.empty());
}

}  // namespace
}  // namespace troupe::actors::row_lending_test
