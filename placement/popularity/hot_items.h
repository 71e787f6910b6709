#pragma once
// Tells which items are hot now: those with at least a given share of the last accesses. The share
// is configured, or set again from time to time (by Algorithm 1 of BAT, hrcs.h). The window
// counts accesses, not time, so a burst is detected after the same number of requests under any
// load; an item with fifty times the share is detected fifty times sooner. The thresholds to enter
// and to leave differ, so that an item with a slightly varying share stays.
//
// The memory is 20 to 28 bytes per access of the window and an access takes two lookups, for any
// number of items. Items share counters by chance, so rarely an item is reported hot that is not.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "placement/popularity/access_distribution.h"

namespace troupe::placement {

struct HotItemsConfig {
  std::uint32_t window = 32'768;  // accesses in the window, 1 to 2^24
  double hot_share = 0.001;       // share of the window at which an item becomes hot; 0 = none does
  double keep_share = 0.5;        // fraction of hot_share below which an item is no longer hot
  std::uint32_t uses_min = 8;     // minimum number of accesses to be hot, for small shares
};

class HotItems {
 public:
  explicit HotItems(HotItemsConfig config);

  struct Change {
    bool entered = false;               // the touched item became hot
    std::optional<std::uint64_t> left;  // another item that is no longer hot
  };
  Change touch(std::uint64_t key);
  bool contains(std::uint64_t key) const;

  // Counts the items of the window by their numbers of accesses, most accesses first. The time
  // goes with the largest of these numbers.
  std::vector<AccessClass> classes() const;
  // Sets the number of accesses of the window at which an item becomes hot, but at least uses_min; 0 =
  // none does. Returns the items that are no longer hot, in no order. An item that would be hot now
  // becomes so when it is touched next.
  std::vector<std::uint64_t> set_hot_count(std::uint64_t accesses);

  std::size_t size() const { return hot_.size(); }
  std::size_t size_max() const { return window_ / keep_count_; }

 private:
  using Slot = std::uint32_t;
  Slot slot(std::uint64_t key) const;
  void choose_counts(std::uint64_t accesses);
  void count_access(Slot at);
  void forget_access(Slot at);

  std::uint32_t window_, uses_min_;
  double keep_share_;
  std::uint32_t hot_count_ = 0, keep_count_ = 0;
  std::vector<std::uint32_t> counts_;            // [slot] accesses in the window
  std::vector<std::uint32_t> items_with_;        // [accesses] slots with so many, up to the most that one has
  std::vector<Slot> recent_;                     // ring of the window's accesses
  std::size_t oldest_ = 0;                       // index in the ring, once it is full
  std::unordered_map<Slot, std::uint64_t> hot_;  // the one hot item of a slot; its order has no effect
};

}  // namespace troupe::placement
