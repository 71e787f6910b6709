#pragma once
// The index of cache-meta: where each block is, whose it is, and how hot its owner was when last asked. It is
// soft state: KV-cache workers own the blocks and say when they come and go; an entry that is missing or
// wrong costs a miss, never a wrong answer. User blocks are also kept in order of hotness, coldest first.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages.h"

namespace troupe::actors {

struct IndexedBlock {
  NodeId node = 0;
  SegmentKind kind = SegmentKind::item;
  std::string owner;
  std::uint32_t tokens = 0;
  std::uint64_t generation = 0;
  double frequency = 0;  // of the owner, user blocks only; as of the last `set_frequency`
};

class BlockIndex {
 public:
  explicit BlockIndex(std::size_t blocks_max) : blocks_max_(blocks_max) {}

  // False if there is no room, or if a younger generation of that node is known.
  bool add(NodeId node, const BlockAdded& block, double frequency);
  // Only if it is still this node's block of this generation.
  bool remove(NodeId node, const BlockRemoved& block);
  void forget(SegmentKind kind, const std::string& owner);
  void forget_node(NodeId node);

  const IndexedBlock* find(const BlockName& name) const;  // null if unknown
  void set_frequency(const std::string& user, double frequency);

  // User blocks as (frequency, name), coldest first.
  const std::set<std::pair<double, BlockName>>& coldest() const { return coldest_; }
  // The user after this one in order of key, from the first again after the last; none if no user has a
  // block.
  std::optional<std::string> user_after(const std::string& user) const;

  std::size_t blocks() const { return blocks_.size(); }
  std::size_t users() const { return users_.size(); }

 private:
  using Names = std::set<BlockName>;
  std::map<std::string, Names>& owners(SegmentKind kind) {
    return kind == SegmentKind::user ? users_ : others_;
  }
  void erase(std::map<BlockName, IndexedBlock>::iterator at);

  std::size_t blocks_max_;
  std::map<BlockName, IndexedBlock> blocks_;
  std::map<std::string, Names> users_, others_;  // owner → its blocks
  std::set<std::pair<double, BlockName>> coldest_;
};

}  // namespace troupe::actors
