#pragma once
// Whom an actor tells what it does: nodes of the cluster's file, always, and those that joined later. These
// say themselves that they are there, again and again until they are heard, and are told nothing any more
// once they are lost.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "runtime/actor/identity.h"

namespace troupe {

class Audience {
 public:
  explicit Audience(std::vector<NodeId> file) : file_(file.begin(), file.end()), nodes_(std::move(file)) {}

  const std::vector<NodeId>& nodes() const { return nodes_; }  // the file's first, in its order
  bool has(NodeId node) const { return std::ranges::find(nodes_, node) != nodes_.end(); }
  bool hear(NodeId node) {  // true: it is new
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
