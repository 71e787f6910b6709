#include "kernels/operations/exponential_sum.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

using namespace troupe::kernels;

namespace {

std::vector<float> random_logits(std::size_t count, float spread, std::mt19937& random) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST_CASE("exponential sum: every version agrees with the reference up to rounding") {
  std::mt19937 random(3);
  for (const SumExponentialsVersion& version : sum_exponentials_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    CAPTURE(name);
    CHECK(version.run(nullptr, 0).sum == 0);
    for (const std::size_t count : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 33u, 256u, 1000u})
      for (const float spread : {0.1f, 3.0f, 100.0f}) {
        CAPTURE(count);
        CAPTURE(spread);
        const std::vector<float> logits = random_logits(count, spread, random);
        const ExponentialSum found = version.run(logits.data(), count),
                             expected = sum_exponentials_reference(logits.data(), count);
        CHECK(found.largest == expected.largest);
        CHECK(std::abs(found.log() - expected.log()) <= 2e-6);
      }
  }
}

TEST_CASE("exponential sum: a logit that is not finite makes the sum NaN") {
  for (const SumExponentialsVersion& version : sum_exponentials_versions()) {
    if (!version.usable) continue;
    for (const float bad : {INFINITY, -INFINITY, NAN})
      for (const std::size_t at : {0u, 5u, 16u, 36u}) {
        std::vector<float> logits(37, 1.0f);
        logits[at] = bad;
        CHECK(!std::isfinite(version.run(logits.data(), logits.size()).log()));
      }
  }
}

TEST_CASE("exponential sum: sums of parts merge, whichever has the largest logit") {
  std::mt19937 random(4);
  const std::vector<float> logits = random_logits(100, 40, random);
  const double whole = sum_exponentials_reference(logits.data(), 100).log();
  for (const std::size_t step : {1u, 9u, 50u}) {
    ExponentialSum sum;
    for (std::size_t i = 0; i < 100; i += step)
      sum.add(sum_exponentials_reference(logits.data() + i, std::min<std::size_t>(step, 100 - i)));
    CHECK(std::abs(sum.log() - whole) < 1e-5);
  }
  ExponentialSum bad{1, 1};
  bad.add({NAN, NAN});
  CHECK(std::isnan(bad.log()));
}

}  // namespace
