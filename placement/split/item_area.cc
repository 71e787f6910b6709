// Sizes the item area of a node's page pool from the blocks of its catalog.
#include "placement/split/item_area.h"

#include <algorithm>

namespace troupe::placement {

std::uint64_t wanted_pages(const ItemPages& blocks) {
  const std::uint64_t put_later = blocks.items / 4 + (blocks.items % 4 > 0);
  return blocks.items + put_later + blocks.shared;
}

std::uint32_t item_area_pages(std::uint64_t wanted, std::uint32_t pages) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, pages / 2));
}

double share_of_pages(std::uint32_t area, std::uint32_t pages) {
  return area == 0 ? 0 : std::min(1.0, (area + 0.5) / pages);
}

}  // namespace troupe::placement
