#pragma once
// Remembers the worker that each user's request was last sent to, in a table of fixed size. Two
// users in the same slot overwrite each other. The result only decides between workers that are
// about equally good.
#include <cstdint>
#include <vector>

#include "kernels/base/hash.h"
#include "runtime/actor/core.h"

namespace troupe::router {

class LastWorkers {
 public:
  explicit LastWorkers(std::size_t slots) : nodes_(slots) {}  // 0 = remember nothing
  void note(std::uint64_t user, NodeId node) {
    if (!nodes_.empty()) nodes_[slot(user)] = node;
  }
  // Returns the worker; 0 = unknown.
  NodeId of(std::uint64_t user) const { return nodes_.empty() ? 0 : nodes_[slot(user)]; }

 private:
  std::size_t slot(std::uint64_t user) const { return spread(user) % nodes_.size(); }

  std::vector<NodeId> nodes_;
};

}  // namespace troupe::router
