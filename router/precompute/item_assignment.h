#pragma once
// Assigns the blocks of items to nodes for precomputing. Items that a plan lists go where it says
// (`troupe-lab plan`). All others go to the node of their shard, so a catalog may grow without a new
// plan.
#include <memory>
#include <string>
#include <vector>

#include "placement/assignment/shards.h"
#include "runtime/actor/ports.h"

namespace troupe::router {

class ItemAssignment {
 public:
  using Listed = ListedItems;  // index into the sorted nodes, all nodes or none

  // Throws std::invalid_argument like placement::validated_nodes.
  explicit ItemAssignment(std::vector<NodeId> nodes, Listed listed = {});
  // Shares the list, which may be long.
  ItemAssignment(std::vector<NodeId> nodes, std::shared_ptr<const Listed> listed);
  static ItemAssignment replicated(std::vector<NodeId> nodes);  // assigns every item to every node

  // Returns the assignment for other nodes: items listed on a missing node go to their shard.
  ItemAssignment over(std::vector<NodeId> nodes) const;

  std::vector<NodeId> nodes_of(const std::string& item) const;
  std::size_t listed() const { return listed_->size(); }
  const std::vector<NodeId>& nodes() const { return shards_.nodes(); }  // sorted

 private:
  placement::Shards shards_;
  std::shared_ptr<const Listed> listed_;  // never null
  bool all_everywhere_ = false;
};

}  // namespace troupe::router
