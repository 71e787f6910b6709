// Splits the pages of a pool between its areas (item blocks, user blocks, rows of embedding tables)
// by configured shares.
#include "runtime/pool/pool_areas.h"

#include <algorithm>

namespace troupe {

std::vector<std::uint32_t> split_pages(std::uint32_t pages, std::span<const double> shares) {
  std::vector<std::uint32_t> split;
  std::uint32_t left = pages;
  for (const double share : shares) {
    const auto wanted = static_cast<std::uint32_t>(std::max(0.0, share) * pages);
    left -= split.emplace_back(std::min(wanted, left));
  }
  const auto rest = std::ranges::find(shares, remaining_pages);
  if (rest != shares.end()) split[static_cast<std::size_t>(rest - shares.begin())] = left;
  return split;
}

}  // namespace troupe
