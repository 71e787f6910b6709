#include "deploy/lab/what_if/comparison.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

using namespace troupe;
using namespace troupe::deploy;

namespace {

ComparedFigure figure(const std::vector<ComparedFigure>& all, const std::string& name) {
  return *std::ranges::find(all, name, &ComparedFigure::name);
}

}  // namespace

TEST_SUITE("what-if comparison") {
  TEST_CASE("comparison: errors are relative to the measured value, and for small shares to a twentieth") {
    BenchRankRun measured, predicted;
    measured.requests = predicted.requests = 100;
    measured.qps = 200, predicted.qps = 150;
    measured.tokens_computed = predicted.tokens_computed = 5;
    measured.hit_rate = 0.5, predicted.hit_rate = 0.6;
    measured.plans_user = 1, predicted.plans_user = 2;
    const auto all = compare(measured, predicted);
    CHECK(figure(all, "throughput").error == doctest::Approx(-0.25));
    CHECK(figure(all, "tokens_computed").error == 0);
    CHECK(figure(all, "hit_rate").error == doctest::Approx(0.2));
    CHECK(figure(all, "user_plans").error == doctest::Approx(0.2));
    CHECK(figure(all, "p50_ms").error == 0);  // neither has any
  }

  TEST_CASE("error bounds: only figures beyond their bound are named, and invalid bounds are refused") {
    const ErrorBounds bounds = parse_bounds({"throughput=0.2", "tokens_computed=0"});
    CHECK(exceeded_bounds({{"throughput", 10, 12, 0.2}, {"p50_ms", 1, 9, 8}, {"tokens_computed", 4, 4, 0}},
                          bounds)
              .empty());
    const auto faults =
        exceeded_bounds({{"throughput", 10, 7, -0.3}, {"tokens_computed", 1'000, 1'001, 0.001}}, bounds);
    REQUIRE(faults.size() == 2);
    CHECK(faults[0] == "throughput is -30.0 % off; expected at most 20.0 %");
    for (const char* bad :
         {"throughput", "speed=1", "throughput=", "throughput=x", "throughput=-1", "=1", "p50_ms=1x"})
      CHECK_THROWS_AS(parse_bounds({bad}), std::invalid_argument);
  }

  TEST_CASE("as_bench_run: the CPU time is the sum of passes, host work and idle work") {
    sim::DeploymentResult result;
    result.requests = 10, result.answered = 9, result.errors = 1;
    result.seconds = 2;
    result.kernels_s = 1.5;
    result.host_us.fill(1e4);
    result.plans_user = 4;
    result.tokens_total = 100, result.tokens_reused = 25, result.tokens_computed = 75;
    placement::HostWork host;
    host.idle_share = 0.05;
    const BenchRankRun run = as_bench_run(result, "bat", host);
    CHECK(run.qps == 5);
    CHECK(run.cpu_seconds == doctest::Approx(1.5 + 0.01 * placement::host_components + 0.1));
    CHECK(run.profile.front().component == "kernels");
    CHECK(run.profile.front().seconds == doctest::Approx(1.51));  // includes their time beyond the cost model
    CHECK(run.plans_item == 5);
    CHECK(run.hit_rate == 0.25);
  }
}
