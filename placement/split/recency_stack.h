#pragma once
// Computes stack distances: the total size of everything used since a key's last use, in any unit.
// An LRU cache hits the key exactly if its capacity is at least that distance (Mattson et al.,
// "Evaluation techniques for storage hierarchies", 1970). One pass over the uses therefore gives
// the hits of caches of all sizes.
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::placement {

class RecencyStack {
 public:
  // Keeps the `keys_max` most recently used keys.
  explicit RecencyStack(std::size_t keys_max);

  // Records a use. Returns the total size of what was used since the key's last use, plus its own;
  // nullopt for a key that is not tracked.
  std::optional<std::uint64_t> use(std::uint64_t key, std::uint32_t size);
  void trim(std::uint64_t total);  // forgets the least recently used keys beyond this total size
  std::size_t keys() const { return slot_of_.size(); }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t size = 0;  // 0: empty
  };
  void add(std::size_t slot, std::int64_t size);
  std::uint64_t before(std::size_t slot) const;  // total size of the slots before `slot`
  void forget_oldest();
  void compact();

  std::size_t keys_max_;
  std::vector<Slot> slots_;          // in order of use
  std::vector<std::uint64_t> sums_;  // a Fenwick tree over the slots' sizes
  // Slots: next_ takes the next use; all slots before oldest_ are empty.
  std::size_t next_ = 0, oldest_ = 0;
  std::uint64_t total_ = 0;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> slot_of_;  // only for lookups
};

}  // namespace troupe::placement
