#include "actors/inference/table_shard.h"

#include <string>

#include "runtime/actor/block_name.h"

namespace troupe::actors {

BlockName block_of(const TableShard& shard) {
  return block_name({to_hex(shard.table), "shard " + std::to_string(shard.shard)}, "", {}, 0, {});
}

}  // namespace troupe::actors
