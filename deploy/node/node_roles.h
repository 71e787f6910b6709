#pragma once
// Roles of a process in its cluster, and the nodes that have each role.
#include <string>
#include <vector>

#include "runtime/actor/identity.h"
#include "runtime/coordination/members.h"

namespace troupe::deploy {

struct NodeRoles {
  NodeId node = 1;
  bool router = true, cache_meta = true, worker = true;
  std::vector<NodeId> routers{1}, cache_metas{1},
      workers{1};  // all nodes of the file with that role, including this one
  // Address at which other nodes reach this one: an address or a name; empty: a single node.
  std::string host = {};
  // A node of the cluster's file is both router and worker, without regard to nodes that join.
  bool mixes_roles = false;
  bool joined = false;   // true: this node is not in the cluster's file
  ReadMembers members;   // nodes that had joined and left when this process started
  Incarnation seen = 0;  // incarnation of this node's previous process, from its kept members; 0 = none
  bool is_alone() const { return routers.size() == 1 && routers == cache_metas && routers == workers; }
};

}  // namespace troupe::deploy
