#pragma once
// Decides which nodes hold which items: each item is everywhere, on one node, or nowhere (then it
// is computed when a request needs it). A placement takes two bytes per item: 200 MB for a hundred
// million items on any number of nodes. It does not say which node holds an item now: workers
// report that, and the index follows the reports.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

using NodeNumber = std::uint32_t;  // 0 means "no node"

// The items to place: the size of each, and a key that stays the same when the catalog changes.
class Items {
 public:
  // Constructs `count` items of one size; an item's key is its number. Throws std::invalid_argument
  // for no items or for a size of 0.
  Items(std::uint64_t count, std::uint64_t bytes_each);
  // Constructs one item per entry. Throws std::invalid_argument if the lengths differ, if there are
  // no items or if a size is 0.
  Items(std::vector<std::uint32_t> bytes, std::vector<std::uint64_t> keys);

  std::uint64_t count() const { return count_; }
  std::uint64_t bytes(ItemNumber item) const { return bytes_.empty() ? bytes_each_ : bytes_[item]; }
  std::uint64_t key(ItemNumber item) const { return keys_.empty() ? item : keys_[item]; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t smallest_bytes() const { return smallest_bytes_; }
  bool one_size() const { return bytes_.empty(); }

 private:
  std::uint64_t count_, bytes_each_ = 0, total_bytes_ = 0, smallest_bytes_ = 0;
  std::vector<std::uint32_t> bytes_;
  std::vector<std::uint64_t> keys_;
};

// Index of the one node that has the item, or one of the two constants below.
using NodeIndex = std::uint16_t;
inline constexpr NodeIndex everywhere = 0xffff, nowhere = 0xfffe;
inline constexpr std::size_t nodes_max = nowhere;

// Returns the node numbers sorted. Throws std::invalid_argument if there are none or too many, if
// one is 0, or if one occurs twice.
std::vector<NodeNumber> validated_nodes(std::vector<NodeNumber> nodes);

class Placement {
 public:
  // Constructs a placement with all items nowhere.
  Placement(std::vector<NodeNumber> nodes, std::uint64_t items);

  NodeIndex place(ItemNumber item) const { return places_[item]; }
  void put(ItemNumber item, NodeIndex place) { places_[item] = place; }
  void add_items(std::uint64_t count) { places_.resize(places_.size() + count, nowhere); }
  bool holds(std::size_t node_index, ItemNumber item) const {
    return places_[item] == everywhere || places_[item] == node_index;
  }
  const std::vector<NodeNumber>& nodes() const { return nodes_; }  // sorted; indexed by NodeIndex
  std::uint64_t items() const { return places_.size(); }
  bool operator==(const Placement&) const = default;

 private:
  std::vector<NodeNumber> nodes_;
  std::vector<NodeIndex> places_;
};

std::vector<std::uint64_t> bytes_per_node(const Placement& placement, const Items& items);

// A change: a node must get an item, or may drop it.
struct PlacementMove {
  ItemNumber item = 0;
  NodeNumber node = 0;
  bool gains = false;
  // For a gain: a node that has the item and stays; 0 = the item must be computed.
  NodeNumber from = 0;
  bool operator==(const PlacementMove&) const = default;
};

// Returns the differences between two placements of the same items, ordered by item. An item's
// gains come before its losses, so that it is always somewhere. Nodes that left get no losses.
std::vector<PlacementMove> moves(const Placement& old, const Placement& next);

}  // namespace troupe::placement
