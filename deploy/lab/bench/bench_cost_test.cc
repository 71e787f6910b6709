#include "deploy/lab/bench/bench_cost.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::deploy;
using kernels::KvFormat;
using kernels::WeightFormat;

namespace {

CostRuns runs_of(WeightFormat weights, std::vector<double> cpu_seconds, std::vector<RankedAnswer> answers) {
  CostRuns runs{{weights, KvFormat::f32}, std::move(cpu_seconds), {2'000'000'000}, 1000, 500'000'000, {}};
  runs.answers = std::move(answers);
  return runs;
}

}  // namespace

TEST_SUITE("bench cost") {
  TEST_CASE("cost rows: rates, core-hours and ratios are medians over the rounds, paired by round") {
    const std::vector<CostRow> rows = cost_rows(
        {runs_of(WeightFormat::f32, {10, 20, 30}, {}), runs_of(WeightFormat::bf16, {5, 10, 15}, {})});
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].rankings_per_cpu_second == doctest::Approx(50));
    CHECK(rows[0].core_hours_per_million == doctest::Approx(20'000.0 / 3600));
    CHECK(rows[0].ratio == 1);
    CHECK(rows[1].rankings_per_cpu_second == doctest::Approx(100));
    CHECK(rows[1].ratio == doctest::Approx(2));
    CHECK(rows[1].gigabytes == doctest::Approx(2));
    CHECK(rows[1].pool_gigabytes == doctest::Approx(0.5));
    CHECK(rows[1].rate_per_gigabyte() == doctest::Approx(50));
    CHECK(!rows[1].ndcg.has_value());
  }

  TEST_CASE("cost rows: quality is compared request by request, and only judged ones have an NDCG") {
    const std::vector<RankedAnswer> base{
        {true, 1, {"a", "b"}}, {true, 0, {"c", "d"}}, {false, 0, {"e", "f"}}};
    const std::vector<RankedAnswer> other{
        {true, 2, {"b", "a"}}, {true, 0, {"c", "x"}}, {false, 0, {"y", "z"}}};
    const std::vector<CostRow> rows =
        cost_rows({runs_of(WeightFormat::f32, {1}, base), runs_of(WeightFormat::int8, {1}, other)});
    REQUIRE(rows[0].ndcg.has_value());
    CHECK(rows[0].ndcg->value == doctest::Approx(0.5));
    CHECK(rows[0].change->value == 0);
    CHECK(rows[0].overlap.value == 1);
    // The gain of place 2 is 1 / log2(3).
    CHECK(rows[1].ndcg->value == doctest::Approx(0.5 / 1.5849625));
    CHECK(rows[1].change->value == doctest::Approx((1 / 1.5849625 - 1) / 2));
    CHECK(rows[1].overlap.value == doctest::Approx((1 + 0.5 + 0) / 3));
  }

  TEST_CASE("measure_costs: every format answers the same questions in each round") {
    const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";
    Config config;
    config.set("model.directory", (demo / "model").string());
    BenchRank bench;
    bench.data = demo / "world";
    bench.rows = read_evaluation(demo / "world" / "requests.jsonl");
    bench.visits = make_visits(bench.rows, 6, 3, 7);
    bench.in_flight = 1;
    const CostSetup setup{
        {{WeightFormat::f32, KvFormat::f32}, {WeightFormat::bf16, KvFormat::bf16}}, "item", 2};
    int ran = 0;
    const std::vector<CostRuns> runs = measure_costs(bench, config, setup, [&] { ++ran; });
    CHECK(ran == 4);
    REQUIRE(runs.size() == 2);
    for (const CostRuns& run : runs) {
      CHECK(run.requests == 6);
      CHECK(run.cpu_seconds.size() == 2);
      CHECK(run.answers.size() == 6);
      for (const RankedAnswer& answer : run.answers) CHECK(answer.best.size() == 10);
    }
    CHECK(runs[1].pool_bytes < runs[0].pool_bytes);
    const std::vector<CostRow> rows = cost_rows(runs);
    CHECK(rows[0].ndcg.has_value());
    CHECK(rows[1].overlap.value > 0.8);
  }
}
