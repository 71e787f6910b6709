// Moves the rows of a beam search's paths in place when paths are dropped or branch, so that later
// reads are contiguous.
#include "kernels/search/reorder.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/check.h"

namespace troupe::kernels {

void reorder_rows(std::byte* rows, std::size_t bytes, std::span<const std::uint32_t> parents) {
  TROUPE_CHECK(std::is_sorted(parents.begin(), parents.end()),
               "reorder: expected parents that do not descend");
  const auto move = [&](std::size_t to) {
    std::memcpy(rows + to * bytes, rows + parents[to] * bytes, bytes);
  };
  for (std::size_t r = 0; r < parents.size(); ++r)
    if (parents[r] > r) move(r);
  for (std::size_t r = parents.size(); r-- > 0;)
    if (parents[r] < r) move(r);
}

}  // namespace troupe::kernels
