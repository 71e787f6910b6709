#include "router/flights/recent_times.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace troupe;
using namespace troupe::router;

namespace {

const RecentTimes::Row* find(const std::vector<RecentTimes::Row>& rows, std::string_view stage) {
  const auto at = std::ranges::find(rows, stage, &RecentTimes::Row::stage);
  return at == rows.end() ? nullptr : &*at;
}

}  // namespace

TEST_SUITE("recent times") {
  TEST_CASE("recent times: quantiles are exact to a fifth, and unused stages are left out") {
    RecentTimes times;
    for (int i = 1; i <= 1000; ++i) times.add({i * 1'000}, {.compute = 100 * i, .total = 200 * i});
    const auto rows = times.rows({1'000'000});
    CHECK(rows.size() == 2);
    const auto* compute = find(rows, "compute");
    REQUIRE(compute);
    CHECK(compute->requests == 1000);
    CHECK(static_cast<double>(compute->p50_us) == doctest::Approx(50'000).epsilon(0.2));
    CHECK(static_cast<double>(compute->p99_us) == doctest::Approx(99'000).epsilon(0.2));
  }

  TEST_CASE("recent times: slots older than a minute are forgotten one at a time") {
    RecentTimes times;
    times.add({5'000'000}, {.total = 1'000'000});
    times.add({15'000'000}, {.total = 10});
    CHECK(find(times.rows({15'000'000}), "total")->requests == 2);
    CHECK(find(times.rows({61'000'000}), "total")->requests == 1);
    CHECK(times.rows({200'000'000}).empty());
    times.add({205'000'000}, {.total = 7});
    CHECK(find(times.rows({205'000'000}), "total")->requests == 1);
  }

  TEST_CASE("recent times: a zero time and a time of hours have a bucket") {
    RecentTimes times;
    times.add({0}, {.total = 0});
    times.add({0}, {.total = 86'400'000'000});
    CHECK(find(times.rows({0}), "total")->p50_us <= 2);
    CHECK(find(times.rows({0}), "total")->p99_us > 60'000'000);
  }

  TEST_CASE("plan tally: plans are counted by name up to a bound, the others together") {
    PlanTotals tally;
    tally.add("item", 100, 90);
    tally.add("item", 100, 80);
    for (int i = 0; i < 100; ++i) tally.add("blocks+" + std::to_string(i), 10, 1);
    CHECK(tally.plans().at("item").requests == 2);
    CHECK(tally.plans().at("item").reused == 170);
    CHECK(tally.plans().size() <= 24);
    std::uint64_t all = 0;
    for (const auto& [name, plan] : tally.plans()) all += plan.requests;
    CHECK(all == 102);
  }
}
