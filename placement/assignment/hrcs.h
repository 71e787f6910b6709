#pragma once
// Places items by "hot replicated, cold sharded" (HRCS; BAT §5.2, Algorithm 1), and by its two
// baselines. Pulls may keep the network busy for at most a share alpha of a request's compute time:
//
//    t     = PrefillTime(tau_u, c * tau_i)                  user tokens computed behind c cached items
//    R_max = alpha * t * B * (N - 1) / (c * tau_i * N)      maximum share of item accesses to other nodes
//
// The hottest items are put on every node until their CDF reaches 1 - R_max; the others are put on
// one node each. (One access in N finds a sharded item on its own node, so the remote share is (N -
// 1)/N of 1 - CDF, below R_max: the paper's formula is on the safe side by (N/(N - 1))^2.)
//
// The paper assumes memory for all items. With less memory only the hottest items are placed; an
// item that is placed nowhere is computed, not pulled. Then the hottest items are replicated until
// the sharded ones have at most R_max of the accesses. Both rules agree when all items fit.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct ReplicationInput {
  double prefill_us = 0;    // t: prefill time of the user tokens
  double alpha = 0.1;       // share of t for pulls; the paper leaves it open
  double tokens_per_s = 0;  // B: tokens per second whose keys and values a node's link carries
  double candidates = 0;    // c: candidates per request
  double item_tokens = 0;   // tau_i: mean tokens of an item
  std::uint32_t nodes = 0;  // N: worker nodes
};
// Returns R_max; a value above 1 means that the network is no limit. Throws std::invalid_argument
// if an input is not positive and finite.
double communication_ratio_max(const ReplicationInput& input);

// Returns the number of items to put everywhere, at least 1 (Algorithm 1, lines 8 to 16). Divided
// by accesses.items() it is the paper's replication ratio r.
std::uint64_t replicated_items(const AccessDistribution& accesses, double ratio_max);

struct HrcsDecision {
  double ratio_max = 0;
  std::uint64_t by_algorithm = 0;  // items to replicate if memory holds all items
  std::uint64_t replicated = 0;    // items to replicate
  std::uint64_t placed = 0;        // items placed on at least one node, by their sizes alone
  double hot_share = 0;  // access share of the coldest replicated item; a hotter item is replicated too
};
// Decides how many items to replicate. `memory_bytes`: item memory of each node. `accesses` and
// `items` must have the same number of items.
HrcsDecision decide_replication(double ratio_max, const AccessDistribution& accesses, const Items& items,
                                std::size_t nodes, std::uint64_t memory_bytes);

// The decision for items that were counted while serving, as a threshold that needs no list of items.
struct HotThreshold {
  std::uint64_t accesses = 0;  // an item with so many, or more, is replicated; 0 = no item is
  std::uint64_t items = 0;     // number of such items
};
// Decides by `counted`, classes with ever fewer accesses and at least one access in all. All blocks have
// `block_bytes`. Equally accessed items are all replicated, or none of them if not all fit into
// `memory_bytes` of each node. On a single node nothing is replicated.
HotThreshold decide_threshold(double ratio_max, std::span<const AccessClass> counted, std::size_t nodes,
                              std::uint64_t block_bytes, std::uint64_t memory_bytes);

// Puts the hottest items everywhere and the next hottest on the node of their shard, until the
// memory is full.
Placement place_hot_and_cold(std::uint64_t replicated, const AccessDistribution& accesses, const Items& items,
                             std::vector<NodeNumber> nodes, std::uint64_t memory_bytes);
// Place items by the baselines BAT-Replicate and BAT-Hash (§6.4).
Placement place_everywhere(const AccessDistribution& accesses, const Items& items,
                           std::vector<NodeNumber> nodes, std::uint64_t memory_bytes);
Placement place_by_hash(const AccessDistribution& accesses, const Items& items, std::vector<NodeNumber> nodes,
                        std::uint64_t memory_bytes);

}  // namespace troupe::placement
