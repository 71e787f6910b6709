#pragma once
// What an embedding table's shard is called as a block, for the core that asks for it and the port that reads it.
#include "runtime/actor/ports.h"

namespace troupe::actors {

BlockName block_of(const TableShard& shard);

}  // namespace troupe::actors
