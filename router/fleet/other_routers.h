#pragma once
// Sends news to the cluster's other routers.
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

 private:
  const MemberWatch& members_;
  NodeId self_;
};

}  // namespace troupe::router
