#include "actors/inference/row_cache_port.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "actors/inference/paced_table_port.h"
#include "actors/inference/table_shards_port.h"
#include "runtime/actor/table_shard.h"

// Separate from other test benches in this executable.
namespace troupe::actors::row_cache_port_test {
namespace {

// Row r of version v is r + v / 8 in all columns.
class Numbers final : public kernels::EmbeddingTable {
 public:
  explicit Numbers(int version = 0) : version_(version) {}
  std::uint32_t rows() const override { return 1'000; }
  std::uint32_t columns() const override { return 4; }
  void fetch(std::span<const Token> rows, float* out) override {
    if (fails) throw std::runtime_error("the disk is gone");
    fetched += rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::fill_n(out + i * 4, 4, static_cast<float>(rows[i]) + static_cast<float>(version_) / 8);
  }
  std::size_t fetched = 0;
  bool fails = false;

 private:
  const int version_;
};

// Eight pages, each with two rows and some spare bytes; four are lent.
struct Bench {
  PageArena arena{40, 8};
  std::shared_ptr<RowCache> cache = std::make_shared<RowCache>(arena, 4);
  std::shared_ptr<Numbers> slow = std::make_shared<Numbers>();
  std::shared_ptr<kernels::EmbeddingTable> table = cache->cached(slow);
  Bench() { cache->change({{4, 5, 6, 7}, 0}); }

  std::vector<float> read(std::vector<Token> rows) { return read(*table, std::move(rows)); }
  std::vector<float> read(kernels::EmbeddingTable& from, std::vector<Token> rows) {
    std::vector<float> all(rows.size() * 4, -1), firsts;
    from.fetch(rows, all.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(all[i * 4] == all[i * 4 + 3]);
      firsts.push_back(all[i * 4]);
    }
    CHECK(cache->check_invariants() == "");
    return firsts;
  }
};
using Floats = std::vector<float>;

TEST_CASE_FIXTURE(Bench, "row cache: a table with rows of another size is returned unchanged") {
  struct Wide final : kernels::EmbeddingTable {
    std::uint32_t rows() const override { return 3; }
    std::uint32_t columns() const override { return 5; }
    void fetch(std::span<const Token>, float*) override {}
  };
  const auto wide = std::make_shared<Wide>();
  CHECK(cache->cached(wide) == wide);
  CHECK(table != slow);
}

TEST_CASE_FIXTURE(Bench, "row cache: each row of a pass is fetched once, and not at all when it is cached") {
  CHECK(read({3, 5, 3, 3}) == Floats{3, 5, 3, 3});
  CHECK(slow->fetched == 2);
  CHECK(read({5, 3}) == Floats{5, 3});
  CHECK(slow->fetched == 2);
  const RowTotals totals = cache->totals();
  CHECK(totals.hits == 2);
  CHECK(totals.misses == 2);
  CHECK(totals.repeats == 2);
  CHECK(totals.bytes_missed == 2 * 16);
}

TEST_CASE_FIXTURE(Bench, "row cache: rows without a free slot are right, also without any page") {
  std::vector<Token> many;
  Floats right;
  for (Token row = 0; row < 20; ++row) {
    many.push_back(row);
    right.push_back(static_cast<float>(row));
  }
  CHECK(read(many) == right);
  CHECK(cache->change({{}, 4}).given_back.size() == 4);
  CHECK(read(many) == right);
  CHECK(slow->fetched == 40);
}

TEST_CASE_FIXTURE(Bench, "row cache: a row with wrong bytes is fetched again") {
  read({1});
  for (std::uint32_t page = 4; page < 8; ++page)
    arena.page(page)[0] ^= std::byte{1};  // the first row of each page
  CHECK(read({1}) == Floats{1});
  CHECK(cache->totals().corrupt == 1);
  CHECK(read({1}) == Floats{1});
  // The read that finds the error does not keep the row, the next one does.
  CHECK(slow->fetched == 3);
  CHECK(read({1}) == Floats{1});
  CHECK(slow->fetched == 3);
}

TEST_CASE_FIXTURE(Bench, "row cache: rows of two versions are kept apart, and dropped with their version") {
  auto newer = std::make_shared<Numbers>(1);
  auto second = cache->cached(newer);
  CHECK(read({1, 2}) == Floats{1, 2});
  CHECK(read(*second, {1, 2}) == Floats{1.125, 2.125});
  table.reset();
  CHECK(cache->totals().dropped == 2);
  CHECK(read(*second, {1, 2}) == Floats{1.125, 2.125});
  CHECK(newer->fetched == 2);
}

TEST_CASE_FIXTURE(Bench, "row cache: a failed fetch throws and leaves nothing behind") {
  slow->fails = true;
  CHECK_THROWS_AS(read({1}), std::runtime_error);
  slow->fails = false;
  CHECK(read({1}) == Floats{1});
}

TEST_CASE_FIXTURE(Bench, "row cache: new pages are refilled with evicted rows, within the allowed bytes") {
  read({1, 2, 3, 4, 5, 6, 7, 8});
  cache->change({{}, 2});
  cache->change({{0, 1}, 0});
  CHECK(cache->totals().wants_refill);
  CHECK(cache->refill({3 * 16}).rows.bytes_refilled == 3 * 16);
  CHECK(cache->refill({100 * 16}).rows.bytes_refilled == 4 * 16);
  const std::size_t before = slow->fetched;
  read({1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(slow->fetched == before);
  CHECK_FALSE(cache->totals().wants_refill);
}

TEST_CASE_FIXTURE(Bench, "row cache: it reports what cached rows saved, and what more pages would save") {
  read({1, 2, 3, 4});
  read({1, 2, 3, 4});
  const RowPages changed = cache->change({});
  CHECK(changed.saved_us > 0);
  REQUIRE(changed.savings.size() == 101);
  CHECK(changed.savings.front() == 0);
  CHECK(changed.savings.back() == doctest::Approx(changed.saved_us));
  CHECK(std::ranges::is_sorted(changed.savings));
}

TEST_CASE_FIXTURE(Bench, "row cache: slots that read while pages are lent and returned see right rows") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::atomic<bool> wrong = false;
  const auto slot = [&](unsigned from) {
    std::mt19937 random(from);
    for (int pass = 0; pass < 300; ++pass) {
      std::vector<Token> rows(1 + random() % 12);
      for (Token& row : rows) row = static_cast<Token>(random() % 24);
      Floats all(rows.size() * 4);
      table->fetch(rows, all.data());
      for (std::size_t i = 0; i < all.size(); ++i) wrong = wrong || all[i] != static_cast<float>(rows[i / 4]);
    }
  };
  // A backing table that several slots may read.
  class Counted final : public kernels::EmbeddingTable {
   public:
    std::uint32_t rows() const override { return 1'000; }
    std::uint32_t columns() const override { return 4; }
    void fetch(std::span<const Token> rows, float* out) override {
      for (std::size_t i = 0; i < rows.size(); ++i) std::fill_n(out + i * 4, 4, static_cast<float>(rows[i]));
    }
  };
  table = cache->cached(std::make_shared<Counted>());
  std::thread one(slot, seed), other(slot, seed + 1);
  for (int change = 0; change < 200; ++change) {
    const auto given = cache->change({{}, 2}).given_back;
    cache->refill({64});
    cache->change({given, 0});
  }
  one.join();
  other.join();
  CHECK_FALSE(wrong.load());
  CHECK(cache->check_invariants() == "");
  CHECK(cache->totals().corrupt == 0);
}

TEST_CASE("paced table: rows arrive at the given rate, those of two readers one after the other") {
  using namespace std::chrono_literals;
  PacedTable::Time now{}, slept{};
  PacedTable paced(std::make_shared<Numbers>(), 16'000,
                   {[&] { return now; }, [&](PacedTable::Time till) { slept = till; }});
  std::vector<float> out(40);
  paced.fetch(std::vector<Token>{1, 2}, out.data());
  CHECK(slept - PacedTable::Time{} == 2ms);
  CHECK(out[4] == 2);
  paced.fetch(std::vector<Token>{3}, out.data());
  CHECK(slept - PacedTable::Time{} == 3ms);
  now += 10ms;
  paced.fetch(std::vector<Token>{3}, out.data());
  CHECK(slept - PacedTable::Time{} == 11ms);
}

}  // namespace
}  // namespace troupe::actors::row_cache_port_test

// Separate from other test benches in this executable.
namespace troupe::actors::table_shards_port_test {
namespace {

// Row r is r in all columns.
class Numbers final : public kernels::EmbeddingTable {
 public:
  explicit Numbers(std::uint32_t columns = 4) : columns_(columns) {}
  std::uint32_t rows() const override { return 7; }
  std::uint32_t columns() const override { return columns_; }
  void fetch(std::span<const Token> rows, float* out) override {
    fetched += rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::fill_n(out + i * columns_, columns_, static_cast<float>(rows[i]));
  }
  std::size_t fetched = 0;

 private:
  const std::uint32_t columns_;
};

using Floats = std::vector<float>;

// Pages of two rows and some spare bytes: the table has four shards, the last with one row.
struct Bench {
  PageArena arena{40, 8};
  std::shared_ptr<TableShards> shards = std::make_shared<TableShards>(arena, 4);
  std::shared_ptr<Numbers> slow = std::make_shared<Numbers>();
  std::shared_ptr<kernels::EmbeddingTable> table = shards->sharded(slow, "m1", "items");

  Floats read(kernels::EmbeddingTable& from, std::vector<Token> rows) {
    Floats all(rows.size() * 4, -1), firsts;
    from.fetch(rows, all.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CHECK(all[i * 4] == all[i * 4 + 3]);
      firsts.push_back(all[i * 4]);
    }
    return firsts;
  }
  Floats read(std::vector<Token> rows) { return read(*table, std::move(rows)); }
  // Returns the shards with which a batch ends that may acquire shards.
  std::vector<TableShard> away(std::vector<Token> rows) {
    const RunBatch batch{.asks_for_shards = true};
    TableShards::BatchShards lent(shards.get(), batch);
    try {
      read(std::move(rows));
    } catch (const MissingShards& elsewhere) {
      return elsewhere.shards;
    }
    return {};
  }
  // Grants shards as the KV-cache worker would, in pages from `page` on.
  RunBatch granted(std::vector<TableShard> names, Grant grant, std::uint32_t page = 0) const {
    RunBatch batch;
    for (const TableShard& shard : names) {
      batch.shards.push_back({shard, {.grant = grant, .generation = 70 + page, .pages = {page}}});
      ++page;
    }
    return batch;
  }
  RowTotals totals() const {
    RowTotals totals;
    shards->add_to(totals);
    return totals;
  }
};

TEST_CASE_FIXTURE(Bench, "table shards: a table with rows of another size is returned unchanged") {
  const auto wide = std::make_shared<Numbers>(5);
  CHECK(shards->sharded(wide, "m1", "items") == wide);
  CHECK(table != slow);
}

TEST_CASE_FIXTURE(Bench, "table shards: missed rows are reported by shard, each once, and none is read") {
  const auto names = away({5, 0, 1, 4, 6});
  REQUIRE(names.size() == 3);
  CHECK(names[0].shard == 0);
  CHECK(names[1].shard == 2);
  CHECK(names[2].shard == 3);
  CHECK(slow->fetched == 0);
  CHECK(read({5, 0}) == Floats{5, 0});  // outside of a batch: refills, or tables without sharding
}

TEST_CASE_FIXTURE(Bench,
                  "table shards: a writer fills a shard, clears the rest of its page and reports its sum; "
                  "readers find its rows") {
  const auto names = away({2, 6});
  arena.page(1)[30] = std::byte{9};
  std::vector<BlockOutcome> written;
  {
    const RunBatch batch = granted(names, Grant::write);
    TableShards::BatchShards lent(shards.get(), batch);
    CHECK(read({2, 6, 3}) == Floats{2, 6, 3});
    written = lent.take_outcomes();
  }
  REQUIRE(written.size() == 2);
  CHECK(written[0].outcome == Outcome::written);
  CHECK(written[1].name == block_of(names[1]));
  CHECK(written[1].generation == 71);
  CHECK(written[1].checksum == checksum_pages(arena, std::vector<std::uint32_t>{1}));
  CHECK(arena.page(1)[30] == std::byte{0});
  CHECK(totals().from_table == 3);
  RunBatch again = granted(names, Grant::read);
  again.shards[1].grant.pulled = true;
  const std::size_t fetched = slow->fetched;
  TableShards::BatchShards lent(shards.get(), again);
  CHECK(read({3, 6}) == Floats{3, 6});
  CHECK(slow->fetched == fetched);
  CHECK(lent.take_outcomes().empty());
  CHECK(totals().from_here == 1);
  CHECK(totals().from_nodes == 1);
}

TEST_CASE_FIXTURE(Bench,
                  "table shards: a shard with wrong bytes is reported, and its rows come from the table") {
  const auto names = away({2, 4});
  {
    const RunBatch batch = granted(names, Grant::write);
    TableShards::BatchShards lent(shards.get(), batch);
    read({2, 4});
  }
  RunBatch again = granted(names, Grant::read);
  for (GrantedShard& one : again.shards) {
    one.grant.check = true;
    one.grant.checksum = checksum_pages(arena, one.grant.pages);
  }
  arena.page(1)[0] ^= std::byte{1};
  TableShards::BatchShards lent(shards.get(), again);
  CHECK(read({2, 4, 5}) == Floats{2, 4, 5});
  const auto outcomes = lent.take_outcomes();
  REQUIRE(outcomes.size() == 2);
  CHECK(outcomes[0].outcome == Outcome::done);
  CHECK(outcomes[1].outcome == Outcome::corrupt);
  CHECK(totals().from_here == 1);
}

TEST_CASE_FIXTURE(Bench, "table shards: rows of shards without a valid grant come from the table") {
  const auto names = away({0, 2, 4});
  RunBatch batch = granted(names, Grant::none);
  batch.shards[1].grant = {.grant = Grant::read, .pages = {8}};
  batch.shards[2].grant = {.grant = Grant::write, .pages = {1, 2}};
  TableShards::BatchShards lent(shards.get(), batch);
  CHECK(read({0, 2, 4, 6}) == Floats{0, 2, 4, 6});
  CHECK(lent.take_outcomes().empty());
  CHECK(totals().from_table == 4);
}

TEST_CASE_FIXTURE(Bench, "table shards: shards of another version, table or size have other names") {
  const auto name_of = [&](const std::shared_ptr<kernels::EmbeddingTable>& other) {
    const RunBatch batch{.asks_for_shards = true};
    TableShards::BatchShards lent(shards.get(), batch);
    try {
      read(*other, {0});
    } catch (const MissingShards& elsewhere) {
      return elsewhere.shards.at(0);
    }
    return TableShard{};
  };
  const TableShard first = name_of(table);
  CHECK(name_of(shards->sharded(slow, "m1", "items")) == first);
  CHECK(name_of(shards->sharded(slow, "m2", "items")) != first);
  CHECK(name_of(shards->sharded(slow, "m1", "users")) != first);
  CHECK(block_of(first) != block_of({first.table, 1}));
}

TEST_CASE_FIXTURE(Bench, "table shards: fill() lists the existing tables and fills their granted shards") {
  const auto tables = shards->fill({}).tables;
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].shards == 4);
  const TableShard last{tables[0].name, 3}, beyond{tables[0].name, 4};
  const FillShards work{granted({last, beyond}, Grant::write).shards};
  const auto outcomes = shards->fill(work).outcomes;
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].name == block_of(last));
  table.reset();
  slow.reset();
  CHECK(shards->fill(work).outcomes.empty());
  CHECK(shards->fill({}).tables.empty());
}

// Behind the cache: cached rows are not reported as missed, and a pass that runs again is counted
// once.
TEST_CASE_FIXTURE(
    Bench, "table shards: rows in a cache are not missed, and a batch that runs again is counted once") {
  const auto cache = std::make_shared<RowCache>(arena, 4);
  cache->change({{6, 7}, 0});
  table = cache->cached(table);
  const auto names = away({0, 1, 0});
  REQUIRE(names.size() == 1);
  CHECK(cache->totals().misses == 0);
  CHECK(cache->totals().repeats == 0);
  {
    const RunBatch batch = granted(names, Grant::write);
    TableShards::BatchShards lent(shards.get(), batch);
    CHECK(read({0, 1, 0}) == Floats{0, 1, 0});
  }
  CHECK(cache->totals().misses == 2);
  CHECK(cache->totals().repeats == 1);
  CHECK(away({1, 0}).empty());
  CHECK(cache->totals().hits == 2);
  CHECK(cache->check_invariants() == "");
}

}  // namespace
}  // namespace troupe::actors::table_shards_port_test
