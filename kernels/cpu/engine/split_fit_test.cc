#include "kernels/cpu/engine/split_fit.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace troupe::kernels;

namespace {

// Points of a machine that has exactly the model's costs.
std::vector<SplitPoint> points_of(const SplitFit& machine, std::uint32_t workers) {
  std::vector<SplitPoint> points;
  for (const double operations : {1e5, 4e5, 1e6, 2.5e6})
    points.push_back({operations, machine.alone(operations), machine.split(operations, workers)});
  return points;
}

TEST_CASE("split fit: the costs of a machine that has the model's are found again") {
  for (const std::uint32_t workers : {2u, 4u}) {
    const SplitFit machine{2e11, 5e-6, 3e-6, 0.9, 1e5};
    const SplitFit fit = fit_split(points_of(machine, workers), workers);
    CHECK(fit.rate == doctest::Approx(machine.rate));
    CHECK(fit.begin == doctest::Approx(machine.begin));
    CHECK(fit.meet == doctest::Approx(machine.meet));
    CHECK(fit.share == doctest::Approx(machine.share));
    const double worth = fit.worth_splitting(workers);
    CHECK(fit.alone(worth) == doctest::Approx(fit.split(worth, workers)));
    CHECK(fit.alone(2 * worth) > fit.split(2 * worth, workers));
  }
}

TEST_CASE("split fit: where splitting costs nothing, nothing smaller than what was measured is split") {
  const SplitFit machine{2e11, 5e-6, 0, 0.9, 1e5};
  CHECK(fit_split(points_of(machine, 2), 2).worth_splitting(2) == doctest::Approx(1e5));
}

TEST_CASE("split fit: where helpers add nothing, splitting never pays") {
  CHECK(std::isinf(SplitFit{2e11, 5e-6, 3e-6, 0, 1e5}.worth_splitting(2)));
  CHECK(std::isinf(SplitFit{2e11, 5e-6, 3e-6, -0.1, 1e5}.worth_splitting(2)));
}

TEST_CASE("split fit: a measurement that takes too long gives nothing") {
  constexpr std::uint32_t keys[] = {4, 16};
  CHECK(measure_split(2, keys, 3, -1).empty());
}

TEST_CASE("split fit: this machine's is within the bounds, and measured once") {
  const double fitted = fitted_split();
  CHECK(fitted >= split_bounds.least);
  CHECK(fitted <= split_bounds.most);
  CHECK(fitted_split() == fitted);
}

}  // namespace
