#pragma once
// What a cluster's file (runtime/settings/config.h) means for one of its nodes.
#include <string>
#include <vector>

#include "deploy/box/box.h"
#include "runtime/process/cluster.h"
#include "runtime/settings/config.h"

namespace troupe::deploy {

// Throws ConfigError if there is no such node.
const ClusterNode& find_node(const std::vector<ClusterNode>& nodes, const std::string& name);
Place place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);
// Without incarnation and greeting.
ClusterPlace cluster_place_of(const std::vector<ClusterNode>& nodes, const ClusterNode& own);

}  // namespace troupe::deploy
