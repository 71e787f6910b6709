#pragma once
// Which items are hot now: those with at least a given share of the last accesses. The window is one of
// accesses and not of time, so that a burst is seen after the same number of requests under any load; an item
// with fifty times the share is seen fifty times sooner. What enters and what leaves are a factor apart, so
// that an item whose share swings a little stays. Takes a few hundred kilobytes and two looks into them per
// access, however many items there are. Items share counters by chance: rarely one is taken for hot that is
// not.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace troupe::placement {

struct HotItemsConfig {
  std::uint32_t window = 32'768;  // accesses that count, 1 to 2^24
  double hot_share = 0.001;       // of them
  double keep_share = 0.5;        // of that; with less an item is not hot any more
  std::uint32_t uses_min = 8;     // so many are needed, however small the share
};

class HotItems {
 public:
  explicit HotItems(HotItemsConfig config);

  struct Change {
    bool entered = false;               // the item that was touched
    std::optional<std::uint64_t> left;  // another one
  };
  Change touch(std::uint64_t key);
  bool contains(std::uint64_t key) const;
  std::size_t size() const { return hot_.size(); }
  std::size_t size_max() const { return window_ / keep_count_; }

 private:
  using Slot = std::uint32_t;
  Slot slot(std::uint64_t key) const;

  std::uint32_t window_, hot_count_, keep_count_;
  std::vector<std::uint32_t> counts_;            // by slot, of the accesses in the window
  std::vector<Slot> recent_;                     // ring of them
  std::size_t oldest_ = 0;                       // in the ring, once it is full
  std::unordered_map<Slot, std::uint64_t> hot_;  // the one item of a slot; looked up only
};

}  // namespace troupe::placement
