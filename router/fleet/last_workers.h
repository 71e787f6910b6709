#pragma once
// The worker that a user's request was sent to last, of as many users as there are places: two of one place
// are taken for one, the later. It only decides between workers that are about as good.
#include <cstdint>
#include <vector>

#include "placement/popularity/spread.h"
#include "runtime/actor/core.h"

namespace troupe::router {

class LastWorkers {
 public:
  explicit LastWorkers(std::size_t places) : nodes_(places) {}  // 0: nobody is remembered
  void note(std::uint64_t user, NodeId node) {
    if (!nodes_.empty()) nodes_[place(user)] = node;
  }
  NodeId of(std::uint64_t user) const { return nodes_.empty() ? 0 : nodes_[place(user)]; }  // 0: not known

 private:
  std::size_t place(std::uint64_t user) const { return spread(user) % nodes_.size(); }

  std::vector<NodeId> nodes_;
};

}  // namespace troupe::router
