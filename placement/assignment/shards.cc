// Maps the key of an item that is not replicated to its node. Nodes get nearly equal shares, and a
// joining or leaving node moves little. Every node computes the same table by itself.
#include "placement/assignment/shards.h"

#include <algorithm>

#include "kernels/base/hash.h"

namespace troupe::placement {

namespace {

constexpr std::size_t slot_count = 1 << 16;
constexpr double slack = 1.03;

// Returns the node with the highest score among those that may take another slot. A score depends
// only on the slot and the node.
NodeIndex best_node(std::uint64_t slot, std::span<const std::uint64_t> hashes,
                    std::span<const std::size_t> taken, std::size_t most) {
  std::size_t best = hashes.size();
  std::uint64_t best_score = 0;
  for (std::size_t node = 0; node < hashes.size(); ++node) {
    const std::uint64_t score = spread(slot ^ hashes[node]);
    if (taken[node] == most || (best < hashes.size() && score <= best_score)) continue;
    best = node;
    best_score = score;
  }
  return static_cast<NodeIndex>(best);
}

}  // namespace

// `owner` spreads the key.
std::uint64_t item_key(std::string_view id) { return fnv1a(id); }

Shards::Shards(std::vector<NodeNumber> nodes) : nodes_(validated_nodes(std::move(nodes))) {
  std::vector<std::uint64_t> hashes;
  for (const NodeNumber node : nodes_) hashes.push_back(spread(node));
  const double part = static_cast<double>(slot_count) / static_cast<double>(nodes_.size());
  const auto most = static_cast<std::size_t>(part * slack) + 1;
  std::vector<std::size_t> taken(nodes_.size());
  slots_.reserve(slot_count);
  for (std::uint64_t slot = 0; slot < slot_count; ++slot) {
    slots_.push_back(best_node(slot, hashes, taken, most));
    ++taken[slots_.back()];
  }
}

NodeIndex Shards::owner(std::uint64_t key) const { return slots_[spread(key) % slot_count]; }

bool NodeCapacity::take_everywhere(std::uint64_t bytes) {
  if (*std::ranges::min_element(free_) < bytes) return false;
  for (std::uint64_t& node : free_) node -= bytes;
  return true;
}

NodeIndex NodeCapacity::take(NodeIndex wanted, std::uint64_t bytes) {
  if (free_[wanted] < bytes) {
    const auto most = std::ranges::max_element(free_);
    if (*most < bytes) return nowhere;
    wanted = static_cast<NodeIndex>(most - free_.begin());
  }
  free_[wanted] -= bytes;
  return wanted;
}

std::uint64_t NodeCapacity::most_free() const { return *std::ranges::max_element(free_); }

}  // namespace troupe::placement
