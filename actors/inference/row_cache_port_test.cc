#include "actors/inference/row_cache_port.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "actors/inference/paced_table_port.h"

namespace troupe::actors::row_cache_port_test {  // beside the other test benches of this executable
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

// Eight pages of two rows and a bit; four are lent.
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

TEST_CASE_FIXTURE(Bench, "a table with rows of another size is given back as it is") {
  struct Wide final : kernels::EmbeddingTable {
    std::uint32_t rows() const override { return 3; }
    std::uint32_t columns() const override { return 5; }
    void fetch(std::span<const Token>, float*) override {}
  };
  const auto wide = std::make_shared<Wide>();
  CHECK(cache->cached(wide) == wide);
  CHECK(table != slow);
}

TEST_CASE_FIXTURE(Bench, "each row of a pass is fetched once, and not at all when it is in the pool") {
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

TEST_CASE_FIXTURE(Bench, "rows that find no room are right as well, and so are all without any page") {
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

TEST_CASE_FIXTURE(Bench, "a row whose bytes are not its own is fetched again") {
  read({1});
  for (std::uint32_t page = 4; page < 8; ++page) arena.page(page)[0] ^= std::byte{1};  // the first row of each
  CHECK(read({1}) == Floats{1});
  CHECK(cache->totals().corrupt == 1);
  CHECK(read({1}) == Floats{1});
  CHECK(slow->fetched == 3);  // who finds it out does not keep it, the next one does
  CHECK(read({1}) == Floats{1});
  CHECK(slow->fetched == 3);
}

TEST_CASE_FIXTURE(Bench, "rows of two versions are not each other's, and go with the version") {
  auto newer = std::make_shared<Numbers>(1);
  auto second = cache->cached(newer);
  CHECK(read({1, 2}) == Floats{1, 2});
  CHECK(read(*second, {1, 2}) == Floats{1.125, 2.125});
  table.reset();
  CHECK(cache->totals().dropped == 2);
  CHECK(read(*second, {1, 2}) == Floats{1.125, 2.125});
  CHECK(newer->fetched == 2);
}

TEST_CASE_FIXTURE(Bench, "what cannot be fetched is an error, and leaves nothing behind") {
  slow->fails = true;
  CHECK_THROWS_AS(read({1}), std::runtime_error);
  slow->fails = false;
  CHECK(read({1}) == Floats{1});
}

TEST_CASE_FIXTURE(Bench, "pages that come are refilled with the rows that went, within the bytes allowed") {
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

TEST_CASE_FIXTURE(Bench, "it says what the rows at hand saved, and what more pages would have") {
  read({1, 2, 3, 4});
  read({1, 2, 3, 4});
  const RowPages told = cache->change({});
  CHECK(told.saved_us > 0);
  REQUIRE(told.savings.size() == 101);
  CHECK(told.savings.front() == 0);
  CHECK(told.savings.back() == doctest::Approx(told.saved_us));
  CHECK(std::ranges::is_sorted(told.savings));
}

TEST_CASE_FIXTURE(Bench, "lanes that read while pages come and go see right rows") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::atomic<bool> wrong = false;
  const auto lane = [&](unsigned from) {
    std::mt19937 random(from);
    for (int pass = 0; pass < 300; ++pass) {
      std::vector<Token> rows(1 + random() % 12);
      for (Token& row : rows) row = static_cast<Token>(random() % 24);
      Floats all(rows.size() * 4);
      table->fetch(rows, all.data());
      for (std::size_t i = 0; i < all.size(); ++i) wrong = wrong || all[i] != static_cast<float>(rows[i / 4]);
    }
  };
  class Counted final : public kernels::EmbeddingTable {  // a slow side that several lanes may read
   public:
    std::uint32_t rows() const override { return 1'000; }
    std::uint32_t columns() const override { return 4; }
    void fetch(std::span<const Token> rows, float* out) override {
      for (std::size_t i = 0; i < rows.size(); ++i) std::fill_n(out + i * 4, 4, static_cast<float>(rows[i]));
    }
  };
  table = cache->cached(std::make_shared<Counted>());
  std::thread one(lane, seed), other(lane, seed + 1);
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

TEST_CASE("rows of a paced table come when their bytes have, those of two askers one after the other") {
  using namespace std::chrono_literals;
  PacedTable::Time now{}, slept{};
  PacedTable paced(std::make_shared<Numbers>(), 16'000, {[&] { return now; }, [&](PacedTable::Time till) { slept = till; }});
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
