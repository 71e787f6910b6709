#include "actors/kv_worker/stored_blocks.h"

namespace troupe::actors {

// Of two blocks whose names collide the later one is known; the other is a miss.
void StoredBlocks::add(const StoredBlock& block) {
  const auto at = blocks_.find(block.name);
  if (at != blocks_.end()) erase(at->second.name);
  if (full()) return;
  blocks_.emplace(block.name, block);
  owners_[{block.kind, block.owner}].insert(block.name);
}

void StoredBlocks::erase(const BlockName& name) {
  const auto at = blocks_.find(name);
  if (at == blocks_.end() || !identical(at->second.name, name)) return;
  const auto owner = owners_.find({at->second.kind, at->second.owner});
  owner->second.erase(name);
  if (owner->second.empty()) owners_.erase(owner);
  blocks_.erase(at);
}

const StoredBlock* StoredBlocks::find(const BlockName& name) const {
  const auto at = blocks_.find(name);
  return at == blocks_.end() || !same_block(at->second.name, name) ? nullptr : &at->second;
}

std::vector<BlockName> StoredBlocks::names_of(SegmentKind kind, const std::string& owner) const {
  const auto at = owners_.find({kind, owner});
  if (at == owners_.end()) return {};
  return {at->second.begin(), at->second.end()};
}

void StoredBlocks::want_save(const BlockName& name) {
  if (saves_.size() < bounds_.saves_waiting_max) saves_.push_back(name);
}

bool StoredBlocks::next_save(BlockName& name) {
  if (saves_.empty()) return false;
  name = saves_.front();
  saves_.pop_front();
  return true;
}

}  // namespace troupe::actors
