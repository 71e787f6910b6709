#include "placement/refresh.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "kernels/check.h"

namespace troupe::placement {

namespace {

constexpr std::uint64_t largest_item = 0xffff'ffff;  // bytes

class Refresh {
 public:
  Refresh(const Placement& current, const Items& items, const Shards& shards, std::span<const Heat> heat,
          const RefreshLimits& limits)
      : next_(current),
        items_(items),
        shards_(shards),
        limits_(limits),
        used_(bytes_per_node(current, items)) {
    TROUPE_CHECK(shards.nodes() == current.nodes(), "shards of the placement's nodes");
    for (const Heat& one : heat) heat_[one.item] = one.frequency;
    for (std::uint64_t i = 0; i < items.count(); ++i) {
      const auto item = static_cast<ItemNumber>(i);
      if (next_.place(item) != everywhere) continue;
      coldest_.emplace(frequency(item), item);
      everywhere_bytes_ += items.bytes(item);
    }
  }

  void remove(std::span<const ItemNumber> removed) {
    for (const ItemNumber item : removed)
      if (next_.place(item) != nowhere) change(item, nowhere);
    removed_.insert(removed.begin(), removed.end());
  }

  void cool_down() {
    while (!coldest_.empty() && coldest_.begin()->first < limits_.hot_frequency * limits_.keep_share)
      leave(coldest_.begin()->second);
  }

  // Stops at the first that must wait, so that nothing colder overtakes it.
  void heat_up(std::span<const Heat> heat) {
    std::vector<std::pair<double, ItemNumber>> hot;
    for (const auto& [item, frequency] : heat)
      if (frequency >= limits_.hot_frequency && next_.place(item) != everywhere && !removed_.contains(item))
        hot.emplace_back(-frequency, item);
    std::ranges::sort(hot);
    for (const auto& [minus_frequency, item] : hot)
      if (!enter(item, -minus_frequency)) return;
  }

  void add(std::span<const ItemNumber> added) {
    for (const ItemNumber item : added) {
      if (next_.place(item) != nowhere || removed_.contains(item)) continue;
      const Place owner = shards_.owner(items_.key(item));
      if (!may_copy(items_.bytes(item))) return;
      if (make_room(owner, items_.bytes(item), item)) change(item, owner);
    }
  }

  std::vector<Change> take() { return std::move(changes_); }

 private:
  double frequency(ItemNumber item) const {
    const auto found = heat_.find(item);
    return found == heat_.end() ? 0 : found->second;
  }

  std::size_t copies(Place place) const {
    return place == everywhere ? used_.size() : place == nowhere ? 0 : 1;
  }

  bool may_copy(std::uint64_t bytes) const {
    return copied_bytes_ == 0 || copied_bytes_ + bytes <= limits_.copied_bytes_max;
  }

  void change(ItemNumber item, Place to) {
    const Place from = next_.place(item);
    const std::uint64_t bytes = items_.bytes(item);
    for (std::size_t node = 0; node < used_.size(); ++node) {
      const bool before = next_.holds(node, item), after = to == everywhere || to == node;
      if (before && !after) used_[node] -= bytes;
      if (!before && after) used_[node] += bytes, copied_bytes_ += bytes;
    }
    if (from == everywhere) coldest_.erase({frequency(item), item}), everywhere_bytes_ -= bytes;
    if (to == everywhere) coldest_.emplace(frequency(item), item), everywhere_bytes_ += bytes;
    next_.put(item, to);
    changes_.push_back({item, from, to});
  }

  // Its shard's node has it already, so nothing is copied.
  void leave(ItemNumber item) { change(item, shards_.owner(items_.key(item))); }

  bool enter(ItemNumber item, double frequency) {
    const std::uint64_t bytes = items_.bytes(item);
    if (!may_copy(bytes * (used_.size() - copies(next_.place(item))))) return false;
    while (everywhere_bytes_ + bytes > limits_.everywhere_bytes_max) {
      if (coldest_.empty() || coldest_.begin()->first >= frequency * limits_.keep_share) return false;
      leave(coldest_.begin()->second);
    }
    for (std::size_t node = 0; node < used_.size(); ++node)
      if (!next_.holds(node, item) && !make_room(static_cast<Place>(node), bytes, item)) return false;
    change(item, everywhere);
    return true;
  }

  // Sharded items that nobody asked for lately give way, the highest number first.
  bool make_room(Place node, std::uint64_t bytes, ItemNumber for_item) {
    if (used_[node] + bytes <= limits_.memory_bytes) return true;
    if (!idle_known_) find_idle();
    std::vector<ItemNumber>& idle = idle_[node];
    while (used_[node] + bytes > limits_.memory_bytes && !idle.empty()) {
      const ItemNumber item = idle.back();
      idle.pop_back();
      if (item != for_item && next_.place(item) == node) change(item, nowhere);
    }
    return used_[node] + bytes <= limits_.memory_bytes;
  }

  // Of each node as many as this step may have to replace.
  void find_idle() {
    idle_known_ = true;
    idle_.resize(used_.size());
    std::vector<std::uint64_t> bytes(used_.size());
    for (std::uint64_t i = items_.count(); i-- > 0;) {
      const auto item = static_cast<ItemNumber>(i);
      const Place place = next_.place(item);
      if (place == everywhere || place == nowhere || frequency(item) > 0) continue;
      if (bytes[place] > limits_.copied_bytes_max + largest_item) continue;
      bytes[place] += items_.bytes(item);
      idle_[place].push_back(item);
    }
    for (std::vector<ItemNumber>& idle : idle_) std::ranges::reverse(idle);
  }

  Placement next_;
  const Items& items_;
  const Shards& shards_;
  const RefreshLimits& limits_;
  std::vector<std::uint64_t> used_;                  // by node
  std::unordered_map<ItemNumber, double> heat_;      // looked up only
  std::set<std::pair<double, ItemNumber>> coldest_;  // of those everywhere
  std::uint64_t everywhere_bytes_ = 0, copied_bytes_ = 0;
  std::set<ItemNumber> removed_;
  bool idle_known_ = false;
  std::vector<std::vector<ItemNumber>> idle_;  // by node: sharded there and not used lately
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> refresh(const Placement& current, const Items& items, const Shards& shards,
                            std::span<const Heat> heat, const CatalogNews& news,
                            const RefreshLimits& limits) {
  Refresh step(current, items, shards, heat, limits);
  step.remove(news.removed);
  step.cool_down();
  step.heat_up(heat);
  step.add(news.added);
  return step.take();
}

void apply(Placement& placement, std::span<const Change> changes) {
  for (const Change& change : changes) {
    TROUPE_CHECK(placement.place(change.item) == change.from, "changes are made in order");
    placement.put(change.item, change.to);
  }
}

std::vector<Move> moves_of(const Placement& placement, const Change& change) {
  std::vector<Move> gains, losses;
  const std::vector<NodeNumber>& nodes = placement.nodes();
  const bool held_by_one = change.from != everywhere && change.from != nowhere;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const bool before = change.from == everywhere || change.from == node;
    const bool after = change.to == everywhere || change.to == node;
    if (after && !before)
      gains.push_back({change.item, nodes[node], true, held_by_one ? nodes[change.from] : 0});
    if (before && !after) losses.push_back({change.item, nodes[node], false, 0});
  }
  gains.insert(gains.end(), losses.begin(), losses.end());
  return gains;
}

}  // namespace troupe::placement
