#pragma once
// Block names as the KV-cache worker uses them. In test builds, containers may compare only a part
// of a name, so a different block can be found by it: a block found by a name is compared with it.
#include "runtime/actor/identity.h"
#include "runtime/pool/page_pool.h"

namespace troupe::actors {

// Returns true if a block found by a name is the block of that name.
inline bool same_block(const BlockName& found, const BlockName& name) { return identical(found, name); }

// Returns null if the block is absent. A different block with a colliding name counts as absent.
inline const PoolBlock* find_block(const PagePool& pool, const BlockName& name) {
  const PoolBlock* block = pool.find(name);
  return block && same_block(block->name, name) ? block : nullptr;
}

}  // namespace troupe::actors
