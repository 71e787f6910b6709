#include "kernels/executor/fixed_shapes.h"

#include <doctest/doctest.h>

#include <random>

namespace troupe::kernels {
namespace {
namespace fixed_shapes_test {

using Parts = std::vector<FixedShapePart>;
constexpr std::uint32_t flame[] = {1024, 512, 256, 128};

TEST_CASE(
    "fixed shapes: a count equal to a shape is one part, and a larger one starts with the largest shape") {
  for (const std::uint32_t shape : flame) CHECK(cut_to_shapes(shape, flame) == Parts{{0, shape, shape}});
  CHECK(cut_to_shapes(2432, flame) ==
        Parts{{0, 1024, 1024}, {1024, 1024, 1024}, {2048, 256, 256}, {2304, 128, 128}});
  CHECK(cut_to_shapes(0, flame) == Parts{});
}

TEST_CASE("fixed shapes: the last part is padded to the smallest shape") {
  CHECK(cut_to_shapes(1, flame) == Parts{{0, 1, 128}});
  CHECK(cut_to_shapes(700, flame) == Parts{{0, 512, 512}, {512, 128, 128}, {640, 60, 128}});
  CHECK(cut_to_shapes(5, std::vector<std::uint32_t>{2}) == Parts{{0, 2, 2}, {2, 2, 2}, {4, 1, 2}});
}

TEST_CASE("fixed shapes: random counts are cut into parts in order, each candidate once, shapes descending") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t candidates = random() % 5000;
    std::uint32_t next = 0, before = flame[0], padding = 0;
    for (const FixedShapePart& part : cut_to_shapes(candidates, flame)) {
      CHECK(part.begin == next);
      CHECK(part.count > 0);
      CHECK(part.count <= part.shape);
      CHECK(part.shape <= before);
      next += part.count, before = part.shape, padding += part.shape - part.count;
    }
    CHECK(next == candidates);
    CHECK(padding < 128);
  }
}

}  // namespace fixed_shapes_test
}  // namespace
}  // namespace troupe::kernels
