#pragma once
// Uses of blocks that messages report along the way. They help to decide which blocks are worth
// keeping.
#include <cstdint>

#include "runtime/actor/identity.h"

namespace troupe {

// Uses of a block that its home node did not see because the requests ran on other nodes.
struct BlockUse {
  BlockName name;
  std::uint32_t tokens = 0;
  std::uint32_t times = 1;  // uses since the last report to the node
  float spared_us = 0;      // microseconds that finding it there would have saved per use
  bool operator==(const BlockUse&) const = default;
};

inline constexpr std::uint32_t row_shards = 128;  // maximum number of shards per embedding table

}  // namespace troupe
