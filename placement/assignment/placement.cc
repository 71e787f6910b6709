// Records which nodes should hold which items: each item on all nodes, on one, or on none. It takes
// two bytes per item, so that every node can keep it for a large catalog.
#include "placement/assignment/placement.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/base/check.h"
#include "kernels/base/hash.h"

namespace troupe::placement {

Items::Items(std::uint64_t count, std::uint64_t bytes_each)
    : count_(count), bytes_each_(bytes_each), total_bytes_(count * bytes_each), smallest_bytes_(bytes_each) {
  if (count == 0 || count > 0xffff'ffff || bytes_each == 0 || bytes_each > 0xffff'ffff)
    throw std::invalid_argument("items: " + std::to_string(count) + " of " + std::to_string(bytes_each) +
                                " bytes; expected 1..4294967295 of each");
}

Items::Items(std::vector<std::uint32_t> bytes, std::vector<std::uint64_t> keys)
    : count_(bytes.size()), bytes_(std::move(bytes)), keys_(std::move(keys)) {
  if (keys_.size() != count_ || count_ == 0 || count_ > 0xffff'ffff)
    throw std::invalid_argument("items: " + std::to_string(count_) + " sizes and " +
                                std::to_string(keys_.size()) + " keys; expected as many, at least one");
  smallest_bytes_ = *std::ranges::min_element(bytes_);
  if (smallest_bytes_ == 0) throw std::invalid_argument("items: one has 0 bytes; expected 1 or more");
  total_bytes_ = std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0});
}

std::vector<NodeNumber> validated_nodes(std::vector<NodeNumber> nodes) {
  std::ranges::sort(nodes);
  const bool twice = std::ranges::adjacent_find(nodes) != nodes.end();
  if (nodes.empty() || nodes.size() > nodes_max || nodes.front() == 0 || twice)
    throw std::invalid_argument("placement: " + std::to_string(nodes.size()) + " nodes; expected 1.." +
                                std::to_string(nodes_max) + ", each once, with numbers from 1");
  return nodes;
}

Placement::Placement(std::vector<NodeNumber> nodes, std::uint64_t items)
    : nodes_(validated_nodes(std::move(nodes))), places_(items, nowhere) {}

std::vector<std::uint64_t> bytes_per_node(const Placement& placement, const Items& items) {
  TROUPE_CHECK(placement.items() == items.count(), "placement and items describe the same catalog");
  std::vector<std::uint64_t> bytes(placement.nodes().size());
  std::uint64_t of_all = 0;
  for (std::uint64_t i = 0; i < items.count(); ++i) {
    const auto item = static_cast<ItemNumber>(i);
    const NodeIndex place = placement.place(item);
    if (place == everywhere) {
      of_all += items.bytes(item);
    } else if (place != nowhere) {
      bytes[place] += items.bytes(item);
    }
  }
  for (std::uint64_t& node : bytes) node += of_all;
  return bytes;
}

namespace {

// Compares the holders of each item in both placements.
class MoveFinder {
 public:
  MoveFinder(const Placement& old, const Placement& next) : old_(old), next_(next) {
    std::ranges::set_intersection(old.nodes(), next.nodes(), std::back_inserter(staying_));
  }

  void look_at(ItemNumber item) {
    const NodeIndex before = old_.place(item), after = next_.place(item);
    if (before == after && unchanged(before)) return;
    if (after != nowhere) gain(item, after == everywhere ? next_.nodes() : one(next_, after));
    if (before != nowhere) lose(item, before == everywhere ? staying_ : one(old_, before));
  }

  std::vector<PlacementMove> take() { return std::move(moves_); }

 private:
  using Nodes = std::span<const NodeNumber>;
  static Nodes one(const Placement& placement, NodeIndex place) {
    return Nodes(placement.nodes()).subspan(place, 1);
  }
  bool unchanged(NodeIndex place) const {
    if (place == nowhere || old_.nodes() == next_.nodes()) return true;
    return place != everywhere && old_.nodes()[place] == next_.nodes()[place];
  }
  static bool is_in(Nodes nodes, NodeNumber node) { return std::ranges::binary_search(nodes, node); }
  static bool holds(const Placement& placement, ItemNumber item, NodeNumber node) {
    const NodeIndex place = placement.place(item);
    if (place == nowhere) return false;
    return is_in(place == everywhere ? Nodes(placement.nodes()) : one(placement, place), node);
  }

  // Returns a node to copy from; 0 = none. If several nodes have the item, a hash of item and
  // receiver chooses.
  NodeNumber source(ItemNumber item, NodeNumber to) const {
    const NodeIndex place = old_.place(item);
    if (place == nowhere) return 0;
    if (place == everywhere)
      return staying_.empty() ? 0 : staying_[spread(item ^ std::uint64_t{to} << 32) % staying_.size()];
    const NodeNumber holder = old_.nodes()[place];
    return is_in(staying_, holder) ? holder : 0;
  }

  void gain(ItemNumber item, Nodes nodes) {
    for (const NodeNumber node : nodes)
      if (!holds(old_, item, node)) moves_.push_back({item, node, true, source(item, node)});
  }
  void lose(ItemNumber item, Nodes nodes) {
    for (const NodeNumber node : nodes)
      if (is_in(staying_, node) && !holds(next_, item, node)) moves_.push_back({item, node, false, 0});
  }

  const Placement& old_;
  const Placement& next_;
  std::vector<NodeNumber> staying_;
  std::vector<PlacementMove> moves_;
};

}  // namespace

std::vector<PlacementMove> moves(const Placement& old, const Placement& next) {
  TROUPE_CHECK(old.items() == next.items(), "both placements describe the same catalog");
  MoveFinder finder(old, next);
  for (std::uint64_t item = 0; item < old.items(); ++item) finder.look_at(static_cast<ItemNumber>(item));
  return finder.take();
}

}  // namespace troupe::placement
