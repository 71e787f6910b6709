// Cuts a request's candidates into parts of fixed sizes, the largest first (FLAME §3.3), for
// executors made for one size.
#include "kernels/executor/fixed_shapes.h"

#include "kernels/base/check.h"

namespace troupe::kernels {

std::vector<FixedShapePart> cut_to_shapes(std::uint32_t candidates, std::span<const std::uint32_t> shapes) {
  TROUPE_CHECK(!shapes.empty() && shapes.back() > 0,
               "fixed shapes: expected at least one shape, and shapes above 0");
  for (std::size_t i = 1; i < shapes.size(); ++i)
    TROUPE_CHECK(shapes[i] < shapes[i - 1], "fixed shapes: expected descending shapes");
  std::vector<FixedShapePart> parts;
  std::uint32_t begin = 0;
  for (const std::uint32_t shape : shapes)
    for (; candidates - begin >= shape; begin += shape) parts.push_back({begin, shape, shape});
  if (begin < candidates) parts.push_back({begin, candidates - begin, shapes.back()});
  return parts;
}

}  // namespace troupe::kernels
