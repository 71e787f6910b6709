#pragma once
// What messages say in passing of uses, for those who decide what is worth keeping.
#include <cstdint>

#include "runtime/actor/identity.h"

namespace troupe {

// Of a block that a node's requests did not want because they ran on other nodes.
struct BlockUse {
  BlockName name;
  std::uint32_t tokens = 0;
  std::uint32_t times = 1;  // that it was used since the node was last told
  float spared_us = 0;      // what finding it there would have spared each
  bool operator==(const BlockUse&) const = default;
};

inline constexpr std::uint32_t row_shards = 128;  // at most, of an embedding table

}  // namespace troupe
