#pragma once
// Hot-replicated, cold-sharded item placement (BAT §5.2, Algorithm 1), and its two baselines. The network may
// be busy with pulls for at most a share alpha of the time that a request computes:
//
//     t     = PrefillTime(tau_u, c * tau_i)                  user tokens computed behind c cached items
//     R_max = alpha * t * B * (N - 1) / (c * tau_i * N)      of the item accesses, at most, go to other nodes
//
// and the hottest items until their CDF reaches 1 - R_max are put on every node, the others each on one.
// (A sharded item is on its own node already for one access in N, so the remote share is (N - 1)/N of
// 1 - CDF, below R_max: the paper's formula is on the safe side by (N/(N - 1))^2.)
//
// The paper assumes room for all. Where there is none, only the hottest items are placed at all, and what is
// placed nowhere is computed, not pulled: then the hottest are replicated until those that are sharded have
// at most R_max of the accesses, which is the same thing where all fit.
#include <cstdint>
#include <vector>

#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct ReplicationInput {
  double prefill_us = 0;    // t
  double alpha = 0.1;       // of t, for pulls; the paper leaves it open
  double tokens_per_s = 0;  // B: keys and values of so many tokens go over a node's link in a second
  double candidates = 0;    // c, per request
  double item_tokens = 0;   // tau_i, of an item on average
  std::uint32_t nodes = 0;  // N
};
// Throws std::invalid_argument if one of them is not positive and finite.
double communication_ratio_max(const ReplicationInput& input);  // R_max; above 1: the network is no limit

// Algorithm 1's lines 8 to 16: the number of items to put everywhere, at least 1. Divided by
// accesses.items() it is the paper's replication ratio r.
std::uint64_t replicated_items(const AccessDistribution& accesses, double ratio_max);

struct HrcsDecision {
  double ratio_max = 0;
  std::uint64_t by_algorithm = 0;  // items everywhere if there is room for all
  std::uint64_t replicated = 0;    // items everywhere
  std::uint64_t placed = 0;        // items that are somewhere, by their sizes alone
  double hot_share = 0;            // of the coldest item that is everywhere: what a hotter one has to have
};
// memory_bytes: of each node, for items. Items and accesses are of the same number of items.
HrcsDecision decide_replication(double ratio_max, const AccessDistribution& accesses, const Items& items,
                                std::size_t nodes, std::uint64_t memory_bytes);

// The hottest items everywhere, the next hottest on the node of their shard, until the memory is full.
Placement place_hot_and_cold(std::uint64_t replicated, const AccessDistribution& accesses, const Items& items,
                             std::vector<NodeNumber> nodes, std::uint64_t memory_bytes);
// The baselines BAT-Replicate and BAT-Hash (§6.4).
Placement place_everywhere(const AccessDistribution& accesses, const Items& items,
                           std::vector<NodeNumber> nodes, std::uint64_t memory_bytes);
Placement place_by_hash(const AccessDistribution& accesses, const Items& items, std::vector<NodeNumber> nodes,
                        std::uint64_t memory_bytes);

}  // namespace troupe::placement
