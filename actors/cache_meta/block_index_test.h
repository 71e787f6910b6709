#pragma once
// For tests of what keeps an index of blocks.
#include <doctest/doctest.h>

#include <vector>

#include "actors/cache_meta/block_index.h"

namespace troupe::actors {

inline std::vector<NodeId> holders(const BlockIndex& index, const BlockName& name,
                                   const std::vector<NodeId>& prefer, std::uint64_t rotation,
                                   std::size_t count) {
  std::vector<NodeId> found;
  const std::size_t many = index.find_holders(name, prefer, rotation, count, found);
  CHECK(many == found.size());
  return found;
}

}  // namespace troupe::actors
