#include "placement/cost/cost_fit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "placement/cost/device_profiles.h"

namespace troupe::placement {
namespace {

DeviceProfile calibrated(double efficiency, double launch_us, double half_tokens) {
  DeviceProfile device = find_device("A100-80G");
  device.efficiency = efficiency;
  device.launch_us = launch_us;
  device.half_tokens = half_tokens;
  return device;
}

// Returns passes of two models with the times that `device` predicts.
std::vector<TimedPass> passes_of(const DeviceProfile& device, std::uint64_t first_tokens = 16) {
  std::vector<TimedPass> passes;
  for (const char* name : {"qwen3-0.6b", "qwen2-7b"})
    for (std::uint64_t fresh = first_tokens; fresh <= 4096; fresh *= 4)
      for (const std::uint64_t reused : {0, 1000, 8000}) {
        const ModelShape& shape = find_shape(name);
        const Pass pass = causal_pass(fresh, reused);
        passes.push_back({shape, pass, CostModel(device, shape).prefill_us(pass)});
      }
  return passes;
}

TEST_CASE("cost fit: the fit recovers the numbers that produced the times") {
  for (const DeviceProfile& truth :
       {calibrated(0.4, 7, 200), calibrated(0.9, 0, 0), calibrated(1, 2, 30), calibrated(0.1, 50, 0)}) {
    CAPTURE(truth.efficiency);
    const DeviceProfile fitted = fit_device(find_device("A100-80G"), passes_of(truth));
    CHECK(fitted.efficiency == doctest::Approx(truth.efficiency).epsilon(0.02));
    CHECK(fitted.launch_us == doctest::Approx(truth.launch_us).epsilon(0.05));
    CHECK(std::abs(fitted.half_tokens - truth.half_tokens) <= 0.05 * truth.half_tokens);
    CHECK(errors_of(fitted, passes_of(truth, 64)).max < 0.01);
  }
}

TEST_CASE("cost fit: an unpublished bandwidth is recovered when passes are bound by it") {
  const DeviceProfile truth = calibrated(0.6, 4, 50);
  DeviceProfile start = truth;
  start.bandwidth *= 0.3;
  const DeviceProfile fitted = fit_device(start, passes_of(truth, 1), Bandwidth::fitted);
  CHECK(fitted.bandwidth == doctest::Approx(truth.bandwidth).epsilon(0.05));
  CHECK(errors_of(fitted, passes_of(truth)).max < 0.03);
}

TEST_CASE("cost fit: a few disturbed passes do not dominate the fit") {
  const DeviceProfile truth = calibrated(0.5, 5, 100);
  std::vector<TimedPass> passes = passes_of(truth);
  for (const std::size_t i : {2, 11, 20}) passes[i].us *= 3;
  const DeviceProfile fitted = fit_device(find_device("A100-80G"), passes);
  CHECK(errors_of(fitted, passes_of(truth)).max < 0.03);
}

TEST_CASE("cost fit: times faster than the peaks allow give a fit within the bounds") {
  std::vector<TimedPass> passes = passes_of(calibrated(1, 0, 0));
  for (TimedPass& pass : passes) pass.us /= 2;
  const DeviceProfile fitted = fit_device(find_device("A100-80G"), passes);
  CHECK(fitted.efficiency == 1);
  CHECK(fitted.launch_us == 0);
  CHECK(validate(fitted) == "");
}

TEST_CASE("cost fit: noisy passes are predicted within the noise, held-out passes too") {
  const unsigned seed = 20260104;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    const DeviceProfile truth =
        calibrated(0.2 + 0.04 * (random() % 20), 1.0 * (random() % 20), 10.0 * (random() % 30));
    std::vector<TimedPass> passes = passes_of(truth);
    for (TimedPass& pass : passes) pass.us *= 0.97 + 0.0001 * (random() % 600);
    const DeviceProfile fitted = fit_device(find_device("A100-80G"), passes);
    CHECK(errors_of(fitted, passes_of(truth, 32)).median < 0.03);
    CHECK(errors_of(fitted, passes_of(truth, 32)).max < 0.08);
  }
}

TEST_CASE("cost fit: errors are relative to the measured time") {
  const DeviceProfile device = calibrated(0.5, 5, 100);
  std::vector<TimedPass> passes = passes_of(device);
  passes.resize(4);
  passes[0].us *= 2;
  passes[1].us *= 1.25;
  CHECK(errors_of(device, passes).max == doctest::Approx(0.5));
  CHECK(errors_of(device, passes).median == doctest::Approx(0.1));
}

TEST_CASE("cost fit: too few passes and passes without a time are refused") {
  std::vector<TimedPass> passes = passes_of(calibrated(0.5, 5, 100));
  passes[1].us = 0;
  CHECK_THROWS_WITH_AS(fit_device(find_device("H100"), passes),
                       "timed pass 1: us is 0.000000; expected a positive number of microseconds",
                       std::invalid_argument);
  passes[0].counts.new_tokens = 0;
  CHECK_THROWS_WITH_AS(fit_device(find_device("H100"), passes),
                       "timed pass 0: new_tokens is 0; expected at least 1", std::invalid_argument);
  passes.resize(2);
  CHECK_THROWS_WITH_AS(fit_device(find_device("H100"), passes),
                       "there are 2 timed passes; expected at least 3", std::invalid_argument);
}

}  // namespace
}  // namespace troupe::placement
