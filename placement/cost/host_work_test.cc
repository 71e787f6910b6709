#include "placement/cost/host_work.h"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <vector>

namespace troupe::placement {
namespace {

HostWork some_work(unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> request(1, 50), part(0.05, 1);
  HostWork work;
  for (std::size_t component = 0; component < host_components; ++component)
    work.costs[component] = {request(random), part(random), part(random), 0};
  for (const HostComponent component : {HostComponent::cache_meta, HostComponent::kv_worker})
    work[component].parts = 0;  // they receive messages only about blocks
  work[HostComponent::checksums].mebibytes = 90;
  work[HostComponent::kv_worker].kept = work[HostComponent::passes].kept = part(random);
  work[HostComponent::passes].cold = work[HostComponent::rest].cold = request(random);
  return work;
}

HostRun run_of(const HostWork& work, const HostUnits& units) {
  HostRun run{units, {}, 1};
  for (std::size_t component = 0; component < host_components; ++component)
    run.us[component] = dot(work.costs[component], units);
  if (units.blocks == 0)
    run.us[static_cast<std::size_t>(HostComponent::cache_meta)] = 0;  // they get no message
  if (units.blocks == 0) run.us[static_cast<std::size_t>(HostComponent::kv_worker)] = 0;
  return run;
}

const std::vector<HostUnits> workloads{
    {100, 1'300, 1'200, 3},          {100, 10'300, 10'200, 70}, {50, 650, 0, 0},
    {200, 20'600, 400, 500},         {80, 3'200, 3'100, 40},    {100, 10'300, 10'200, 90, 3'400, 0},
    {100, 10'300, 10'200, 70, 0, 60}};

}  // namespace

TEST_CASE("host work: costs are recovered from runs of different shape, separately for each room") {
  const unsigned seed = 7;
  CAPTURE(seed);
  const HostWork work = some_work(seed);
  std::vector<HostRun> runs;
  for (const HostUnits& units : workloads) runs.push_back(run_of(work, units));
  const HostWork fitted = fit_host(runs);
  for (std::size_t component = 0; component < host_components; ++component)
    for (const HostRun& run : runs)
      if (run.us[component] > 0)
        CHECK(dot(fitted.costs[component], run.units) == doctest::Approx(run.us[component]).epsilon(0.01));
  const HostUnits unseen{100, 5'000, 2'000, 20};
  CHECK(fitted[HostComponent::passes].cold == doctest::Approx(work[HostComponent::passes].cold).epsilon(0.1));
  CHECK(fitted[HostComponent::kv_worker].kept ==
        doctest::Approx(work[HostComponent::kv_worker].kept).epsilon(0.1));
  CHECK(dot(fitted[HostComponent::router], unseen) ==
        doctest::Approx(dot(work[HostComponent::router], unseen)).epsilon(0.05));
}

TEST_CASE("host work: no cost is negative, and a unit that no run has costs nothing") {
  HostRun small{{100, 1'000, 0, 0}, {}, 1}, large{{100, 10'000, 0, 0}, {}, 1};
  small.us.fill(5'000);
  large.us.fill(2'000);  // more units take less time
  const HostWork fitted = fit_host(std::vector{small, large});
  for (const HostUnits& costs : fitted.costs) {
    CHECK(costs.requests >= 0);
    CHECK(costs.parts == 0);
    CHECK(costs.blocks == 0);
    CHECK(costs.mebibytes == 0);
  }
  CHECK(validate(fitted) == "");
  CHECK_THROWS_AS(fit_host({}), std::invalid_argument);
}

TEST_CASE("host work: the error of passes is relative to all the time that passes take") {
  const auto passes = static_cast<std::size_t>(HostComponent::passes);
  HostRun little{{10, 100, 0, 0}, {}, 1, 1'000}, much = little;
  little.us[passes] = 10;
  much.us[passes] = 90;
  const HostWork fitted = fit_host(std::vector{little, much});
  CHECK(dot(fitted[HostComponent::passes], little.units) == doctest::Approx(47).epsilon(0.02));
  CHECK(name_of(HostComponent::passes) == "kernels");
}

TEST_CASE("host work: a profile charges something or nothing, and a negative cost is refused") {
  HostWork work;
  CHECK_FALSE(work.charges());
  work[HostComponent::router].requests = 3;
  CHECK(work.charges());
  CHECK(validate(work) == "");
  work[HostComponent::router].parts = -1;
  CHECK(validate(work) == "host work of router is -1.000000; expected 0 us or more");
}

}  // namespace troupe::placement
