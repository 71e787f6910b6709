#pragma once
// Items that are asked for together are placed together (RcLLM, Algorithm 1): the hottest 0.1 % everywhere,
// the others cut by METIS along the graph of how often two of them are in one request, with equal bytes on
// all nodes. It pays for requests that run where most of their items are.
#include <cstdint>
#include <vector>

#include "placement/assignment/graph_partition.h"
#include "placement/assignment/local_share.h"
#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct CoOccurrence {
  std::vector<ItemNumber> items;  // of the vertices, rising
  Graph graph;                    // an edge weighs as many requests as have both
};
// Of the items with wanted[item] != 0 that share a request with another one. A request of m of them has
// m * (m - 1) / 2 pairs; 16 bytes for each different pair.
CoOccurrence count_pairs(const Requests& requests, const std::vector<std::uint8_t>& wanted);

std::uint64_t hottest_per_mille(std::uint64_t items);  // 0.1 % of them, at least 1

// Hottest first until the memory is full. Items without company go to the node of their shard. Parts have no
// names of their own: with an earlier placement of the same items each goes to the node that has most of its
// bytes already. Throws as `partition` does.
Placement place_by_co_occurrence(const Requests& requests, const AccessDistribution& accesses,
                                 const Items& items, std::vector<NodeNumber> nodes,
                                 std::uint64_t memory_bytes, const Placement* earlier = nullptr);

}  // namespace troupe::placement
