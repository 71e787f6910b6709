#pragma once
// Derives a node's roles, peers and links from the cluster's file (runtime/config/config.h).
#include <string>
#include <vector>

#include "deploy/node/node_roles.h"
#include "runtime/config/config.h"
#include "runtime/coordination/members.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

// Throws ConfigError if there is no node with that name.
const ClusterNode& find_node(const std::vector<ClusterNode>& nodes, const std::string& name);
// Returns the nodes of the file and those that have joined, without those that have left. Joined
// nodes get the configuration of `like`.
std::vector<ClusterNode> with_members(const std::vector<ClusterNode>& file, const ClusterMembers& members,
                                      const ClusterNode& like);
// Checks that a node with these roles and settings may join the nodes of the file. Runs before the
// node contacts the cluster. Throws ConfigError.
void validate_join(const std::vector<ClusterNode>& file, const ClusterNode& own);
// Checks that the node has certificates that it can use, if the cluster has any. Runs before the node
// contacts the cluster. Throws ConfigError, which says how to make them.
void validate_certificates(const ClusterNode& own);
NodeRoles roles_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);
// The caller fills in incarnation and greeting.
ClusterOptions cluster_place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);

}  // namespace troupe::deploy
