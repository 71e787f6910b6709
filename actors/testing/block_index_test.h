#pragma once
// Test helper: looks up the holders of one block.
#include <doctest/doctest.h>

#include <vector>

#include "actors/cache_meta/block_index.h"

namespace troupe::actors {

inline std::vector<NodeId> holders(const BlockIndex& index, const BlockName& name,
                                   const std::vector<NodeId>& prefer, std::uint64_t rotation,
                                   std::size_t count) {
  const std::vector<BlockQuery> asked{{name}};
  std::vector<std::uint8_t> counts;
  std::vector<NodeId> found;
  index.find_holders(asked, prefer, rotation, count, counts, found);
  REQUIRE(counts.size() == 1);
  CHECK(counts[0] == found.size());
  return found;
}

}  // namespace troupe::actors
