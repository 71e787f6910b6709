#pragma once
// Fixed shapes (FLAME §3.3): a request's candidates cut by size, the largest shape first, so that each part
// runs on an executor that was made for its shape. What is left in the end is padded to the smallest shape
// that holds it. On a CPU nothing is made for a shape, so only tests/bench asks for it: what there is to gain
// stands in its results.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

struct ShapedPart {
  std::uint32_t begin = 0, count = 0;  // candidates of the request
  std::uint32_t shape = 0;             // at least `count`: the others are padding
  bool operator==(const ShapedPart&) const = default;
};

// `shapes` descend, and there is at least one: CHECKs. Parts are in order and hold each candidate once.
std::vector<ShapedPart> cut_to_shapes(std::uint32_t candidates, std::span<const std::uint32_t> shapes);

}  // namespace troupe::kernels
