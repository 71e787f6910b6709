#include "placement/split/marginal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace marginal_test {

Savings curve(double (*saved)(double share)) {
  Savings savings;
  for (std::size_t cell = 0; cell <= split_cells; ++cell)
    savings[cell] = saved(static_cast<double>(cell) / split_cells);
  return savings;
}

TEST_CASE("marginal split: pages go where they save most") {
  const std::vector<Savings> savings{curve([](double x) { return std::sqrt(x); }),
                                     curve([](double x) { return 2 * std::sqrt(x); })};
  std::vector<std::size_t> cells(2);
  best_cells(savings, 0, cells);
  CHECK(cells == std::vector<std::size_t>{20, 80});  // the slopes are equal at shares of 1 to 4
}

TEST_CASE("marginal split: a working set that fits or does not is preferred to a curve that rises at once") {
  const std::vector<Savings> savings{curve([](double x) { return x; }),
                                     curve([](double x) { return x >= 0.6 ? 3.0 : 0.0; })};
  std::vector<std::size_t> cells(2);
  best_cells(savings, 0, cells);
  CHECK(cells == std::vector<std::size_t>{40, 60});
}

TEST_CASE("marginal split: each area keeps its minimum") {
  const std::vector<Savings> savings{curve([](double) { return 0.0; }), curve([](double x) { return x; }),
                                     curve([](double) { return 0.0; })};
  std::vector<std::size_t> cells(3);
  best_cells(savings, 5, cells);
  CHECK(cells == std::vector<std::size_t>{5, 90, 5});
}

TEST_CASE("marginal split: the only area that saves anything gets the whole pool") {
  for (std::size_t only = 0; only < 3; ++only) {
    std::vector<Savings> savings(3, curve([](double) { return 0.0; }));
    savings[only] = curve([](double x) { return x; });
    std::vector<std::size_t> cells(3), all(3);
    best_cells(savings, 0, cells);
    all[only] = split_cells;
    CHECK(cells == all);
  }
}

TEST_CASE("marginal split: no split of three areas saves more (random curves)") {
  std::uint64_t state = 11;
  CAPTURE(state);
  for (int round = 0; round < 5; ++round) {
    std::vector<Savings> savings(3);
    for (Savings& s : savings) {
      double sum = 0;
      for (double& saved : s) {
        state = spread(state);
        saved = sum += state % 11 == 0 ? static_cast<double>(state % 1000) : 0.0;
      }
    }
    std::vector<std::size_t> cells(3);
    best_cells(savings, 0, cells);
    CHECK(std::accumulate(cells.begin(), cells.end(), std::size_t{0}) == split_cells);
    double most = 0;
    for (std::size_t a = 0; a <= split_cells; ++a)
      for (std::size_t b = 0; a + b <= split_cells; ++b)
        most = std::max(most, savings[0][a] + savings[1][b] + savings[2][split_cells - a - b]);
    CHECK(savings[0][cells[0]] + savings[1][cells[1]] + savings[2][cells[2]] == doctest::Approx(most));
  }
}

TEST_CASE("marginal split: without curves the split stays; with them a change needs the minimum gain") {
  MarginalSplit policy({.better = 0.1});
  std::vector<double> shares{0.3, 0.7};
  policy.decide({}, shares);
  CHECK(shares == std::vector<double>{0.3, 0.7});
  const std::vector<Savings> savings{curve([](double x) { return std::min(x, 0.35); }),
                                     curve([](double x) { return x * 0.5; })};
  policy.decide({{}, savings}, shares);
  CHECK(shares == std::vector<double>{0.3, 0.7});
  MarginalSplit eager;
  eager.decide({{}, savings}, shares);
  CHECK(shares == std::vector<double>{0.35, 0.65});
}

}  // namespace marginal_test
}  // namespace troupe::placement
