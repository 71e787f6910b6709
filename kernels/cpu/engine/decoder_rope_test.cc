#include "kernels/cpu/engine/decoder_rope.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace troupe::kernels;

TEST_CASE(
    "rope table: every position has its own angles, at the end of a table and the start of a larger one") {
  const std::vector<double> frequencies{1, 0.1, 0.001};
  for (const std::uint32_t last : {0U, 1U, 255U, 256U, 257U, 511U, 512U, 768U}) {
    CAPTURE(last);
    RopeTable table(frequencies);
    const std::vector<std::uint32_t> positions{last, 0, last};
    table.gather(positions);
    for (std::size_t r = 0; r < positions.size(); ++r)
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        CHECK(table.cosines()[r * 3 + i] == static_cast<float>(std::cos(positions[r] * frequencies[i])));
        CHECK(table.sines()[r * 3 + i] == static_cast<float>(std::sin(positions[r] * frequencies[i])));
      }
  }
}

TEST_CASE("rope table: a table that grows keeps its earlier angles") {
  RopeTable table({0.5});
  for (const std::uint32_t position : {3U, 1'000U, 3U}) {
    table.gather(std::vector<std::uint32_t>{position});
    CHECK(table.cosines()[0] == static_cast<float>(std::cos(position * 0.5)));
  }
}
