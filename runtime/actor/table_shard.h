#pragma once
// Block name of an embedding table's shard, for the core that requests it and the port that reads
// it.
#include <string>

#include "runtime/actor/block_name.h"
#include "runtime/actor/ports.h"

namespace troupe {

inline BlockName block_of(const TableShard& shard) {
  return block_name({to_hex(shard.table), "shard " + std::to_string(shard.shard)}, "", {}, 0, {});
}

}  // namespace troupe
