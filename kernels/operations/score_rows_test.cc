#include "kernels/operations/score_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace troupe::kernels;

namespace {
namespace score_rows_test {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// A table with NaN behind its last row, states that are one float off alignment, and memory for
// their scores.
struct ScoredTable {
  ScoredTable(std::size_t columns, std::size_t states, std::size_t rows, std::mt19937& random)
      : columns(columns), rows(rows), table(columns * rows), state_values(states * columns + 1) {
    std::normal_distribution<float> normal;
    for (float& v : table) v = normal(random);
    for (float& v : state_values) v = normal(random);
    for (std::size_t r = 0; r < rows; ++r) factors.push_back(0.5f + static_cast<float>(r % 3));
    for (std::size_t s = 0; s < states; ++s) state_pointers.push_back(state_values.data() + 1 + s * columns);
    table.resize(table.size() + 16, nan);
  }

  std::vector<std::vector<float>> run(ScoreRows* score, bool with_factors) const {
    std::vector<std::vector<float>> scores(state_pointers.size(), std::vector<float>(rows + 1, nan));
    std::vector<float*> out;
    for (auto& of_state : scores) out.push_back(of_state.data());
    score({.states = state_pointers,
           .table = table.data(),
           .factors = with_factors ? factors.data() : nullptr,
           .rows = rows,
           .columns = columns,
           .out = out});
    return scores;
  }

  std::size_t columns, rows;
  std::vector<float> table, state_values, factors;
  std::vector<const float*> state_pointers;
};

double worst_difference(const std::vector<std::vector<float>>& found,
                        const std::vector<std::vector<float>>& expected, std::size_t rows) {
  double worst = 0;
  for (std::size_t s = 0; s < found.size(); ++s) {
    if (!std::isnan(found[s][rows])) return INFINITY;  // written behind the last row
    for (std::size_t r = 0; r < rows; ++r) {
      const double off = std::abs(double{found[s][r]} - double{expected[s][r]});
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
  }
  return worst;
}

TEST_CASE("score rows: every version gives the scaled products, and reads and writes nothing else") {
  std::mt19937 random(7);
  for (const ScoreVersion& version : score_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    for (const std::size_t columns : {1u, 3u, 15u, 16u, 33u, 50u, 64u, 257u})
      for (const std::size_t states : {0u, 1u, 2u, 3u, 4u, 7u})
        for (const std::size_t rows : {0u, 1u, 3u, 4u, 5u, 67u})
          for (const bool factors : {false, true}) {
            const ScoredTable table(columns, states, rows, random);
            CAPTURE(name);
            CAPTURE(columns);
            CAPTURE(states);
            CAPTURE(rows);
            // A sum of n rounded products of normal numbers is off by about sqrt(n) units of its
            // own size, sqrt(n); factors are at most 2.5, and a factor rounds once more.
            CHECK(worst_difference(table.run(version.run, factors), table.run(score_rows_reference, factors),
                                   rows) <= 2.5 * 8 * 0x1p-24 * double(columns + 1));
          }
  }
}

}  // namespace score_rows_test
}  // namespace
