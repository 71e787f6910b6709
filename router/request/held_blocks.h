#pragma once
// Where the blocks of one ranking request are, as the index answered, and what of its plan a node would have
// to compute anew. A block that is held elsewhere can be pulled, which costs a share of computing it: what
// the network makes of it (RouterConfig::pull_share).
#include <optional>
#include <span>
#include <vector>

#include "router/request/policy.h"
#include "runtime/actor/messages.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

class HeldBlocks {
 public:
  // Absent if the answer's parts do not fit together, or not the question.
  static std::optional<HeldBlocks> of(BlocksFound found, std::size_t items, double pull_share);

  std::span<const NodeId> user_holders() const { return found_.user_holders; }
  std::span<const NodeId> item_holders(std::size_t item) const;
  // Who holds the user's block or most of the items' blocks, whichever the prefix reuses; 0: nobody. Ties go
  // to the lower node.
  NodeId best_holder(Prefix prefix) const;
  // What a node would have to do for a block, of 0 (it has it) over the share of a pull to 1 (compute it).
  double missing_user(NodeId node) const;
  double missing_item(NodeId node, std::size_t item) const;
  double new_tokens(NodeId node, Prefix prefix, double user_tokens, std::span<const ItemView> items) const;
  const BlocksFound& found() const { return found_; }

 private:
  HeldBlocks(BlocksFound found, double pull_share);
  double share_to_compute(std::span<const NodeId> holders, NodeId node) const;

  BlocksFound found_;
  double pull_share_;
  std::vector<std::uint32_t> begins_;  // of each item's holders; one more at the end
};

}  // namespace troupe::router
