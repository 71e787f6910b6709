#pragma once
// Where the blocks of items belong, for whoever computes them ahead of time: those that a plan lists as it
// says (`troupe plan`), all others on the node of their shard, so that a catalog may grow without a new plan.
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/assignment/shards.h"
#include "runtime/actor/core.h"

namespace troupe::router {

class ItemPlaces {
 public:
  using Listed =
      std::unordered_map<std::string, placement::Place>;  // index of the sorted nodes; or everywhere

  // Throws std::invalid_argument as placement::checked_nodes does.
  explicit ItemPlaces(std::vector<NodeId> nodes, Listed listed = {});
  static ItemPlaces replicated(std::vector<NodeId> nodes);  // everything everywhere

  // The same on other nodes: what is listed on one that is not among them falls to its shard.
  ItemPlaces over(std::vector<NodeId> nodes) const;

  std::vector<NodeId> nodes_of(const std::string& item) const;
  const std::vector<NodeId>& nodes() const { return shards_.nodes(); }  // sorted

 private:
  placement::Shards shards_;
  Listed listed_;
  bool all_everywhere_ = false;
};

}  // namespace troupe::router
