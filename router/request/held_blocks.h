#pragma once
// Holds the index's answer for one request: the nodes that hold each block in question. A block
// held on another node can be pulled. The pull costs a fraction of computing it, which depends on
// the network (RouterConfig::pull_share).
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "router/request/candidate.h"
#include "runtime/actor/messages.h"

namespace troupe::router {

class HeldBlocks {
 public:
  // Returns nullopt if the parts of the answer do not match each other or the question.
  static std::optional<HeldBlocks> of(BlocksFound found, std::size_t asked, double pull_share);

  std::span<const NodeId> holders(std::size_t block) const;
  bool is_kept(std::size_t block) const { return found_.counts[block] > 0; }
  double uses(std::size_t block) const { return found_.uses[block]; }
  // Returns the cost of the block at that node: 0 = held there, the pull share = held elsewhere, 1
  // = computed.
  double missing(std::size_t block, NodeId node) const;
  // Returns the node that holds most of these blocks; 0 = none. Ties go to the lower node.
  NodeId best_holder(std::size_t first, std::size_t count) const;
  const BlocksFound& found() const { return found_; }
  std::size_t size() const { return found_.counts.size(); }  // blocks in question
  // Drops the blocks with false; the others keep their order. Requires one entry per block.
  void keep_only(const std::vector<bool>& kept);

 private:
  HeldBlocks(BlocksFound found, double pull_share);
  void index_holders();

  BlocksFound found_;
  double pull_share_;
  std::vector<std::uint32_t> begins_;  // index of each block's first holder, with one more entry at the end
};

// Finds the item blocks of a candidate that no node holds and that `is_made` says of their item that it is
// made in the background. Returns 1 for each such item and 0 for the others, in their order, or nothing if
// there is none. Their entries in `kept`, of all blocks in question, become false. `first`: position of the
// candidate's first block among these.
std::vector<std::uint8_t> drop_missing_items(const Candidate& candidate, std::size_t first,
                                             const HeldBlocks& held,
                                             const std::function<bool(std::string_view item)>& is_made,
                                             std::vector<bool>& kept);

}  // namespace troupe::router
