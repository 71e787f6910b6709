#include "kernels/operations/readout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace troupe::kernels;

namespace {

// A projection of random rows, states that are one float off alignment, and the memory for their
// logits.
struct Instance {
  Instance(std::size_t columns, std::size_t state_count, std::size_t row_count, std::mt19937& random)
      : output{37, static_cast<std::uint32_t>(columns), std::vector<float>(37 * columns)},
        state_values(state_count * columns + 1) {
    std::normal_distribution<float> normal;
    for (float& v : output.values) v = normal(random);
    for (float& v : state_values) v = normal(random);
    for (std::size_t i = 0; i < row_count; ++i) rows.push_back(static_cast<Token>(random() % 37));
    for (std::size_t s = 0; s < state_count; ++s) states.push_back(state_values.data() + 1 + s * columns);
  }

  std::vector<std::vector<float>> run(ReadoutRows* readout) const {
    std::vector<std::vector<float>> logits(
        states.size(), std::vector<float>(rows.size() + 1, std::numeric_limits<float>::quiet_NaN()));
    std::vector<float*> out;
    for (auto& l : logits) out.push_back(l.data());
    readout(states, output, rows, out);
    return logits;
  }

  Matrix output;
  std::vector<float> state_values;
  std::vector<const float*> states;
  std::vector<Token> rows;
};

TEST_CASE("readout: every version gives the dot products and writes nothing else") {
  std::mt19937 random(5);
  for (const ReadoutVersion& version : readout_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    for (const std::size_t columns : {1u, 15u, 16u, 33u, 256u})
      for (const std::size_t states : {0u, 1u, 2u, 3u, 5u, 6u, 13u, 100u})
        for (const std::size_t rows : {0u, 1u, 2u, 4u, 7u, 64u}) {
          const Instance instance(columns, states, rows, random);
          const auto found = instance.run(version.run), expected = instance.run(readout_rows_reference);
          double worst = 0;
          bool rest_untouched = true;
          for (std::size_t s = 0; s < states; ++s) {
            rest_untouched = rest_untouched && std::isnan(found[s][rows]);
            for (std::size_t i = 0; i < rows; ++i) {
              const double off = std::abs(double{found[s][i]} - double{expected[s][i]});
              worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
            }
          }
          CAPTURE(name);
          CAPTURE(columns);
          CAPTURE(states);
          CAPTURE(rows);
          CHECK(rest_untouched);
          // A sum of n rounded products of normal numbers is off by about sqrt(n) units of its own
          // size, sqrt(n); the factor 8 covers the worst of some thousand sums.
          CHECK(worst <= 8 * 0x1p-24 * double(columns));
        }
  }
}

}  // namespace
