#pragma once
// Sends news and questions to the cluster's other routers.
#include <vector>

#include "router/fleet/step.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::router {

class OtherRouters {
 public:
  OtherRouters(const MemberWatch& members, NodeId self) : members_(members), self_(self) {}

  void send(Step step, const Message& message) const {
    for (const NodeId node : members_.routers())
      if (node != self_) step.effects.send({node, Role::router}, message);
  }
  std::vector<NodeId> nodes() const {
    std::vector<NodeId> others = members_.routers();
    std::erase(others, self_);
    return others;
  }

 private:
  const MemberWatch& members_;
  NodeId self_;
};

}  // namespace troupe::router
