#include "actors/cache_meta/block_index.h"

#include <iterator>

namespace troupe::actors {

bool BlockIndex::add(NodeId node, const BlockAdded& block, double frequency) {
  const auto known = blocks_.find(block.name);
  if (known != blocks_.end()) {
    if (known->second.node == node && known->second.generation > block.generation) return false;
    erase(known);
  } else if (blocks_.size() >= blocks_max_) {
    return false;
  }
  const bool is_user = block.kind == SegmentKind::user;
  blocks_[block.name] = {node,         block.kind,       block.owner,
                         block.tokens, block.generation, is_user ? frequency : 0};
  owners(block.kind)[block.owner].insert(block.name);
  if (is_user) coldest_.insert({frequency, block.name});
  return true;
}

bool BlockIndex::remove(NodeId node, const BlockRemoved& block) {
  const auto at = blocks_.find(block.name);
  if (at == blocks_.end() || at->second.node != node || at->second.generation != block.generation)
    return false;
  erase(at);
  return true;
}

void BlockIndex::erase(std::map<BlockName, IndexedBlock>::iterator at) {
  const IndexedBlock& block = at->second;
  auto& owned = owners(block.kind);
  const auto owner = owned.find(block.owner);
  owner->second.erase(at->first);
  if (owner->second.empty()) owned.erase(owner);
  if (block.kind == SegmentKind::user) coldest_.erase({block.frequency, at->first});
  blocks_.erase(at);
}

void BlockIndex::forget(SegmentKind kind, const std::string& owner) {
  const auto owned = owners(kind).find(owner);
  if (owned == owners(kind).end()) return;
  const Names names = owned->second;  // a copy: erasing the last block erases the owner
  for (const BlockName& name : names) erase(blocks_.find(name));
}

void BlockIndex::forget_node(NodeId node) {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    const auto next = std::next(at);
    if (at->second.node == node) erase(at);
    at = next;
  }
}

const IndexedBlock* BlockIndex::find(const BlockName& name) const {
  const auto at = blocks_.find(name);
  return at == blocks_.end() ? nullptr : &at->second;
}

void BlockIndex::set_frequency(const std::string& user, double frequency) {
  const auto owned = users_.find(user);
  if (owned == users_.end()) return;
  for (const BlockName& name : owned->second) {
    IndexedBlock& block = blocks_.at(name);
    if (block.frequency == frequency) continue;
    coldest_.erase({block.frequency, name});
    coldest_.insert({frequency, name});
    block.frequency = frequency;
  }
}

std::optional<std::string> BlockIndex::user_after(const std::string& user) const {
  if (users_.empty()) return std::nullopt;
  const auto next = users_.upper_bound(user);
  return (next == users_.end() ? users_.begin() : next)->first;
}

}  // namespace troupe::actors
