#pragma once
// The nodes to which an actor sends its announcements. Nodes of the cluster's file always belong.
// Nodes that joined later announce themselves repeatedly until they are heard; they are removed
// once they are lost.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "runtime/actor/identity.h"

namespace troupe {

class Subscribers {
 public:
  explicit Subscribers(std::vector<NodeId> file) : file_(file.begin(), file.end()), nodes_(std::move(file)) {}

  const std::vector<NodeId>& nodes() const { return nodes_; }  // nodes of the file first, in its order
  bool has(NodeId node) const { return std::ranges::find(nodes_, node) != nodes_.end(); }
  bool hear(NodeId node) {  // returns true if the node is new
    if (has(node)) return false;
    nodes_.push_back(node);
    return true;
  }
  void lose(NodeId node) {
    if (!file_.contains(node)) std::erase(nodes_, node);
  }

 private:
  std::set<NodeId> file_;
  std::vector<NodeId> nodes_;
};

}  // namespace troupe
