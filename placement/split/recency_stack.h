#pragma once
// How much else was used since something was used last: its distance, in whatever unit sizes are given. A
// cache that drops what was used longest ago finds it again exactly if it has room for that much (Mattson et
// al., "Evaluation techniques for storage hierarchies", 1970), so one pass over the uses gives the hits of
// caches of all sizes.
#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::placement {

class RecencyStack {
 public:
  // Keeps the `keys_max` that were used last.
  explicit RecencyStack(std::size_t keys_max);

  // The sizes of all that was used since its last use, and its own; none if that is not known any more.
  std::optional<std::uint64_t> use(std::uint64_t key, std::uint32_t size);
  void trim(std::uint64_t total);  // forgets those used longest ago beyond so much together
  std::size_t keys() const { return slot_of_.size(); }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t size = 0;  // 0: empty
  };
  void add(std::size_t slot, std::int64_t size);
  std::uint64_t before(std::size_t slot) const;  // sizes in the slots before it
  void forget_oldest();
  void compact();

  std::size_t keys_max_;
  std::vector<Slot> slots_;            // in order of use
  std::vector<std::uint64_t> sums_;    // a Fenwick tree over their sizes
  std::size_t next_ = 0, oldest_ = 0;  // slots: where the next use goes, before which all are empty
  std::uint64_t total_ = 0;
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> slot_of_;  // looked up only
};

}  // namespace troupe::placement
