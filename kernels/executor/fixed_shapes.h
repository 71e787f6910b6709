#pragma once
// Fixed shapes (FLAME §3.3): cuts a request's candidates by size, the largest shape first, so that
// each part runs on an executor made for its shape. The last part is padded to the smallest shape.
// On a CPU nothing is made for a shape, so only tests/bench uses this; its results show the
// possible gain.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

struct FixedShapePart {
  std::uint32_t begin = 0, count = 0;  // candidates of the request
  std::uint32_t shape = 0;             // at least `count`; the difference is padding
  bool operator==(const FixedShapePart&) const = default;
};

// Cuts `candidates` into parts, in order, each candidate once. CHECKs that `shapes` descend and are
// not empty.
std::vector<FixedShapePart> cut_to_shapes(std::uint32_t candidates, std::span<const std::uint32_t> shapes);

}  // namespace troupe::kernels
