// Tests that an HSTU model whose item embedding is not in memory answers as one with it in memory: to the
// bit, with a twentieth of the rows in pages of a pool, whatever is loaded and evicted.
#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "actors/inference/row_cache_port.h"
#include "kernels/checkpoint/safetensors.h"
#include "kernels/hstu/hstu.h"
#include "kernels/testing/test_folder.h"
#include "tests/hstu/hstu_golden.h"

namespace troupe::hstu {
namespace {

using kernels::HstuModel;
using kernels::ItemRows;
using kernels::Request;
using kernels::SegmentKv;
using Readouts = std::vector<std::vector<float>>;

Readouts run_one(kernels::Executor& executor, const kernels::Plan& plan) {
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  return executor.run({&request, 1})[0].readouts;
}

// A pool whose pages of sixteen rows hold a twentieth of the table.
struct Pool {
  std::vector<std::uint32_t> numbers;
  PageArena arena;
  std::shared_ptr<actors::RowCache> rows;

  explicit Pool(const HstuModel& model)
      : numbers(model.config.vocabulary / 320),
        arena(std::size_t{model.config.hidden} * 4 * 16, numbers.size()),
        rows(std::make_shared<actors::RowCache>(arena, model.config.hidden)) {
    std::iota(numbers.begin(), numbers.end(), 0);
    rows->change({numbers, 0});
  }
  // Removes half of the pages; they come back empty.
  void move_boundary() {
    const auto gone = rows->change({{}, static_cast<std::uint32_t>(numbers.size() / 2)}).given_back;
    CHECK(gone.size() == numbers.size() / 2);
    rows->change({gone, 0});
    rows->refill({gone.size() * arena.page_bytes() / 3});
  }
};

void compare(const std::filesystem::path& folder) {
  const auto whole = kernels::make_cpu_hstu(kernels::read_hstu(folder), {.page_tokens = 16});
  HstuModel model = kernels::read_hstu(folder, ItemRows::apart);
  CHECK(model.version == kernels::read_hstu(folder).version);
  CHECK(model.weights.items.values.empty());
  Pool pool(model);
  model.items = pool.rows->cached(model.items);
  const kernels::HstuConfig config = model.config;
  const auto apart = kernels::make_cpu_hstu(std::move(model), {.page_tokens = 16});
  double most = 0;
  for (int round = 0; round < 2; ++round)
    for (const GoldenCase& one : golden_cases(folder / "golden.json")) {
      const kernels::Plan plan = hstu_plan(config, one.request);
      const Readouts found = run_one(*apart, plan);
      REQUIRE(found == run_one(*whole, plan));
      for (std::size_t c = 0; c < one.tasks.size(); ++c)
        most = std::max(most, std::abs(double{found[c + 1][0]} - one.tasks[c]));
      pool.move_boundary();
    }
  const RowTotals totals = pool.rows->totals();
  MESSAGE("largest difference ", most, "; rows hit ", totals.hits, ", missed ", totals.misses,
          ", named again ", totals.repeats);
  CHECK(most < 1e-4);
  CHECK(totals.hits > 0);
  CHECK(totals.misses > 0);
  CHECK(totals.corrupt == 0);
  CHECK(pool.rows->check_invariants() == "");
}

#define SKIP_WITHOUT(name)                                                \
  const std::optional<std::filesystem::path> folder = shared_model(name); \
  if (!folder) {                                                          \
    MESSAGE("skipped: no ../shared/models/" name);                        \
    return;                                                               \
  }

TEST_CASE("HSTU rows: the trained model answers equally with a twentieth of its rows in pages") {
  SKIP_WITHOUT("tiny-hstu-movielens");
  compare(*folder);
}

TEST_CASE("HSTU rows: the model of serving size answers equally with a twentieth of its rows in pages") {
  SKIP_WITHOUT("random-hstu-512");
  compare(*folder);
}

TEST_CASE("HSTU rows: a mapped table widens the file's rows and reports the file's faults") {
  const kernels::TestFolder folder;
  const std::vector<float> values{1, 2, 3, 4, 5, 6}, other{7};
  const kernels::NamedTensor tensors[] = {{"odd", {1}, other}, {"table", {3, 2}, values}};
  for (const auto stored : {kernels::StoredAs::f32, kernels::StoredAs::f16, kernels::StoredAs::bf16}) {
    write_safetensors(folder.path() / "t.safetensors", tensors, stored);
    const auto file = std::make_shared<const kernels::SafetensorsFile>(folder.path() / "t.safetensors");
    kernels::MappedTable table(file, "table", 3, 2);
    std::vector<float> rows(6);
    table.fetch(std::vector<kernels::Token>{2, 0, 2}, rows.data());
    CHECK(rows == std::vector<float>{5, 6, 1, 2, 5, 6});
    kernels::VersionHash whole, by_rows;
    whole.part(std::as_bytes(std::span(values)));
    hash_rows(table, by_rows);
    CHECK(whole.hex() == by_rows.hex());
    CHECK_THROWS_WITH_AS(kernels::MappedTable(file, "table", 2, 3),
                         doctest::Contains("tensor \"table\" has shape [3, 2]; expected [2, 3]"),
                         kernels::LoadError);
    CHECK_THROWS_AS(kernels::MappedTable(file, "none", 2, 3), kernels::LoadError);
  }
}

struct CountingTable final : kernels::EmbeddingTable {
  std::uint32_t rows() const override { return 100'000; }
  std::uint32_t columns() const override { return 2; }
  void fetch(std::span<const kernels::Token> rows, float* out) override {
    for (const kernels::Token row : rows) {
      asked.insert(row);
      *out++ = static_cast<float>(row) + shift;
      *out++ = 1;
    }
  }
  std::set<kernels::Token> asked;
  float shift = 0;
};

TEST_CASE("HSTU rows: the version of a large table samples few rows, and detects a different table") {
  CountingTable table, other;
  other.shift = 1;
  kernels::VersionHash first, again, different;
  hash_sampled_rows(table, first);
  CHECK(table.asked.size() == kernels::sampled_rows);
  CHECK(*table.asked.begin() < 50);
  CHECK(*table.asked.rbegin() > 99'950 - 50);
  hash_sampled_rows(table, again);
  hash_sampled_rows(other, different);
  const std::string name = first.hex();
  CHECK(name == again.hex());
  CHECK(name != different.hex());
}

}  // namespace
}  // namespace troupe::hstu
