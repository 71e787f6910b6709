#pragma once
// What a cluster's file (runtime/config/config.h) means for one of its nodes.
#include <string>
#include <vector>

#include "deploy/node/box.h"
#include "runtime/config/config.h"
#include "runtime/coordination/members.h"
#include "runtime/network/cluster.h"

namespace troupe::deploy {

// Throws ConfigError if there is no such node.
const ClusterNode& find_node(const std::vector<ClusterNode>& nodes, const std::string& name);
// Those of the file, and those that have joined, configured as `like`; without those that have left.
std::vector<ClusterNode> with_members(const std::vector<ClusterNode>& file, const Members& members,
                                      const ClusterNode& like);
// Whether a node with these roles and settings may join those of the file, before the cluster hears of it.
// Throws ConfigError.
void check_joins(const std::vector<ClusterNode>& file, const ClusterNode& own);
Place place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);
// Without incarnation and greeting.
ClusterPlace cluster_place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);

}  // namespace troupe::deploy
