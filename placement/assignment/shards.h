#pragma once
// Maps the key of an item that is not replicated to a node. Keys fall on 2^16 slots; slots are
// assigned to nodes by rendezvous hashing with a bound, so that no node has more than 3 % above an
// equal share. Everybody who knows the nodes computes the same table (128 KB). A node that joins or
// leaves changes about its own share of it.
//
// NodeCapacity counts the free bytes of each node while items are placed.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/check.h"
#include "placement/assignment/placement.h"
#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

std::uint64_t item_key(std::string_view id);  // the same on every machine and in every version

class Shards {
 public:
  // Throws std::invalid_argument as validated_nodes does.
  explicit Shards(std::vector<NodeNumber> nodes);

  NodeIndex owner(std::uint64_t key) const;  // returns an index into nodes()
  const std::vector<NodeNumber>& nodes() const { return nodes_; }
  std::span<const NodeIndex> slots() const { return slots_; }

 private:
  std::vector<NodeNumber> nodes_;
  std::vector<NodeIndex> slots_;
};

class NodeCapacity {
 public:
  NodeCapacity(std::size_t nodes, std::uint64_t bytes_each) : free_(nodes, bytes_each) {}

  // False: one node has too few free bytes, and nothing is taken.
  bool take_everywhere(std::uint64_t bytes);
  // Takes bytes on `wanted`, or on the node with most free bytes if `wanted` is full; returns
  // nowhere if they fit on no node.
  NodeIndex take(NodeIndex wanted, std::uint64_t bytes);
  std::uint64_t most_free() const;

 private:
  std::vector<std::uint64_t> free_;
};

// Puts the hottest `replicated` items everywhere and the next hottest each on owner(item), until
// the memory of all nodes is full.
template <class Owner>
Placement place_hottest_first(std::uint64_t replicated, const AccessDistribution& accesses,
                              const Items& items, const std::vector<NodeNumber>& nodes,
                              std::uint64_t memory_bytes, Owner owner) {
  TROUPE_CHECK(accesses.items() == items.count(), "accesses and items describe the same catalog");
  Placement placement(nodes, items.count());
  NodeCapacity capacity(nodes.size(), memory_bytes);
  std::uint64_t rank = 0;
  for (; rank < std::min(replicated, items.count()); ++rank) {
    const ItemNumber item = accesses.item_at(rank);
    if (!capacity.take_everywhere(items.bytes(item))) break;
    placement.put(item, everywhere);
  }
  for (; rank < items.count() && capacity.most_free() >= items.smallest_bytes(); ++rank) {
    const ItemNumber item = accesses.item_at(rank);
    placement.put(item, capacity.take(owner(item), items.bytes(item)));
  }
  return placement;
}

}  // namespace troupe::placement
