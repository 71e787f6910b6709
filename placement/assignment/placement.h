#pragma once
// Which nodes hold which items, as a decision: each item is everywhere, on one node, or nowhere (then it is
// computed when it is asked for). Two bytes an item, so that a hundred million items on any number of nodes
// are 200 MB. Whoever holds what at the moment is another matter: workers say so, and the index believes
// them.
#include <cstdint>
#include <span>
#include <vector>

#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

using NodeNumber = std::uint32_t;  // 0 is "no node"

// The items to place: what each takes, and a number that stays the item's own when the catalog changes.
class Items {
 public:
  // All of one size; the key is the number. Throws std::invalid_argument for no items or no bytes.
  Items(std::uint64_t count, std::uint64_t bytes_each);
  // Of each item. Throws std::invalid_argument if the two differ in length, or as above.
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

using Place = std::uint16_t;  // index of the one node that has it, or:
inline constexpr Place everywhere = 0xffff, nowhere = 0xfffe;
inline constexpr std::size_t nodes_max = nowhere;

// Sorted. Throws std::invalid_argument if there are none, too many, a 0, or one twice.
std::vector<NodeNumber> checked_nodes(std::vector<NodeNumber> nodes);

class Placement {
 public:
  // All items nowhere.
  Placement(std::vector<NodeNumber> nodes, std::uint64_t items);

  Place place(ItemNumber item) const { return places_[item]; }
  void put(ItemNumber item, Place place) { places_[item] = place; }
  void add_items(std::uint64_t count) { places_.resize(places_.size() + count, nowhere); }
  bool holds(std::size_t node_index, ItemNumber item) const {
    return places_[item] == everywhere || places_[item] == node_index;
  }
  const std::vector<NodeNumber>& nodes() const { return nodes_; }  // sorted; a Place is an index of it
  std::uint64_t items() const { return places_.size(); }
  bool operator==(const Placement&) const = default;

 private:
  std::vector<NodeNumber> nodes_;
  std::vector<Place> places_;
};

std::vector<std::uint64_t> bytes_per_node(const Placement& placement, const Items& items);

// One node has to get an item, or may drop it.
struct Move {
  ItemNumber item = 0;
  NodeNumber node = 0;
  bool gains = false;
  NodeNumber from = 0;  // of a gain: a node that has it and stays; 0: nobody has, it must be computed
  bool operator==(const Move&) const = default;
};

// What differs: by item, its gains before its losses, so that it is somewhere all the time. Nodes that left
// are not told to drop anything. Both are of the same items.
std::vector<Move> moves(const Placement& old, const Placement& next);

}  // namespace troupe::placement
