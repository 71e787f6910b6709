#include "kernels/operations/gather.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

using namespace troupe::kernels;

namespace {

TEST_CASE("gather: every version copies each row and writes nothing else") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const GatherVersion& version : gather_versions()) {
    CAPTURE(version.name);
    for (const std::size_t columns : {1u, 7u, 16u, 64u, 513u})
      for (const std::size_t count : {0u, 1u, 5u, 6u, 7u, 100u}) {
        std::vector<float> table(40 * columns + 1);  // misaligned by one value
        for (float& value : table) value = static_cast<float>(random());
        std::vector<const float*> rows;
        for (std::size_t i = 0; i < count; ++i) rows.push_back(table.data() + 1 + random() % 40 * columns);
        constexpr float poison = std::numeric_limits<float>::infinity();
        std::vector<float> out((count + 1) * columns, poison);
        version.run(rows, columns, out.data());
        for (std::size_t i = 0; i < count; ++i)
          for (std::size_t c = 0; c < columns; ++c) REQUIRE(out[i * columns + c] == rows[i][c]);
        for (std::size_t c = 0; c < columns; ++c) REQUIRE(out[count * columns + c] == poison);
      }
  }
}

}  // namespace
