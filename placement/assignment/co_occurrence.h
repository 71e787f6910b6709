#pragma once
// Places items that occur in the same requests on the same node (RcLLM, Algorithm 1). The hottest
// 0.1 % are replicated. METIS cuts the graph of the others, whose edges count how often two items
// share a request, into one part of equal bytes per node. This placement pays off for requests that
// run where most of their items are.
#include <cstdint>
#include <vector>

#include "placement/assignment/graph_partition.h"
#include "placement/assignment/local_share.h"
#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct CoOccurrence {
  std::vector<ItemNumber> items;  // item of each vertex, ascending
  Graph graph;                    // an edge's weight: requests that have both items
};
// Counts pairs among the items with wanted[item] != 0; items that never share a request are left
// out. A request with m such items has m * (m - 1) / 2 pairs. Each different pair takes 16 bytes.
CoOccurrence count_pairs(const Requests& requests, const std::vector<std::uint8_t>& wanted);

std::uint64_t hottest_per_mille(std::uint64_t items);  // 0.1 % of the items, at least 1

// Places items hottest first until the memory is full. An item without edges goes to the node of
// its shard. METIS numbers parts arbitrarily: with an earlier placement of the same items, each
// part goes to the node that already has most of its bytes. Throws as `partition` does.
Placement place_by_co_occurrence(const Requests& requests, const AccessDistribution& accesses,
                                 const Items& items, std::vector<NodeNumber> nodes,
                                 std::uint64_t memory_bytes, const Placement* earlier = nullptr);

}  // namespace troupe::placement
