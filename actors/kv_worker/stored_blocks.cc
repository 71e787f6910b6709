// List of the blocks in the persistent tier (the disk below the pool), found by name, by owner or
// by age.
#include "actors/kv_worker/stored_blocks.h"

#include <utility>

#include "actors/kv_worker/block_identity.h"

namespace troupe::actors {

// If the names of two blocks collide, the later one is known and the other is a miss.
void StoredBlocks::add(StoredBlock block) {
  const auto at = blocks_.find(block.name);
  if (at != blocks_.end()) erase(at->first);
  if (full()) return;
  by_order_[++last_order_] = block.name;
  owners_[{block.kind, block.owner}].insert(block.name);
  const BlockName name = block.name;
  blocks_[name] = {std::move(block), last_order_};
}

void StoredBlocks::erase(const BlockName& name) {
  const auto at = blocks_.find(name);
  if (at == blocks_.end() || !identical(at->first, name)) return;
  const StoredBlock& block = at->second.block;
  const auto owner = owners_.find({block.kind, block.owner});
  owner->second.erase(name);
  if (owner->second.empty()) owners_.erase(owner);
  by_order_.erase(at->second.order);
  blocks_.erase(at);
}

const StoredBlock* StoredBlocks::find(const BlockName& name) const {
  const auto at = blocks_.find(name);
  return at == blocks_.end() || !same_block(at->first, name) ? nullptr : &at->second.block;
}

std::vector<BlockName> StoredBlocks::oldest(std::size_t count,
                                            const std::function<bool(const BlockName&)>& is_kept) const {
  std::vector<BlockName> names;
  for (auto at = by_order_.begin(); at != by_order_.end() && names.size() < count; ++at)
    if (!is_kept(at->second)) names.push_back(at->second);
  return names;
}

std::vector<BlockName> StoredBlocks::names_of(SegmentKind kind, const std::string& owner) const {
  const auto at = owners_.find({kind, owner});
  if (at == owners_.end()) return {};
  return {at->second.begin(), at->second.end()};
}

}  // namespace troupe::actors
