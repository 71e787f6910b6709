#pragma once
// Where the blocks of one request are, as the index answered: which nodes hold each of those that it was
// asked for, and what a node would have to do for it. A block that is held elsewhere can be pulled, which
// costs a share of computing it: what the network makes of it (RouterConfig::pull_share).
#include <optional>
#include <span>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::router {

class HeldBlocks {
 public:
  // Absent if the answer's parts do not fit together, or not the question.
  static std::optional<HeldBlocks> of(BlocksFound found, std::size_t asked, double pull_share);

  std::span<const NodeId> holders(std::size_t block) const;
  bool is_kept(std::size_t block) const { return found_.counts[block] > 0; }
  double uses(std::size_t block) const { return found_.uses[block]; }
  // What a node would have to do for it, of 0 (it has it) over the share of a pull to 1 (compute it).
  double missing(std::size_t block, NodeId node) const;
  // Who holds most of so many blocks; 0: nobody. Ties go to the lower node.
  NodeId best_holder(std::size_t first, std::size_t count) const;
  const BlocksFound& found() const { return found_; }

 private:
  HeldBlocks(BlocksFound found, double pull_share);

  BlocksFound found_;
  double pull_share_;
  std::vector<std::uint32_t> begins_;  // of each block's holders; one more at the end
};

}  // namespace troupe::router
