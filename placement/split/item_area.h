#pragma once
// Sizes the item area of a node's page pool before the user area, which gets the remaining pages
// (BAT §5.1).
#include <cstdint>

namespace troupe::placement {

// Pages of the blocks that one model's requests look up, without those of users.
struct ItemPages {
  std::uint64_t items = 0;   // blocks of all items of the catalog
  std::uint64_t shared = 0;  // blocks that all requests use, such as that of the system prompt
};

// Returns the pages that the blocks should have: with a quarter more for items that are put later.
// Precomputing evicts nothing, so that items beyond it would be computed when they are requested.
std::uint64_t wanted_pages(const ItemPages& blocks);

// Returns the size of the item area, of `pages` that rows of embedding tables leave: at most half.
std::uint32_t item_area_pages(std::uint64_t wanted, std::uint32_t pages);

// Returns the share of `pages` that rounds down to `area` pages.
double share_of_pages(std::uint32_t area, std::uint32_t pages);

}  // namespace troupe::placement
