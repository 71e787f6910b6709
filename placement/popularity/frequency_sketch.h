#pragma once
// Estimates how often each of very many keys was seen recently, in a small fixed memory. It is a
// count-min sketch whose counts are halved from time to time, as TinyLFU uses it for cache
// admission (Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
// ToS 2017). Between two halvings an estimate is never too small, except that counts saturate at
// 255; it is rarely too large.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::placement {

class FrequencySketch {
 public:
  // Sizes the sketch for a cache of `entries`: two counters per entry in each of 4 rows (8 per
  // entry), halved after 16 sightings per entry.
  explicit FrequencySketch(std::size_t entries);

  void touch(std::uint64_t key);  // `key` must be well mixed: a hash or a part of one
  std::uint32_t count(std::uint64_t key) const;

 private:
  static constexpr std::size_t rows = 4;
  std::array<std::size_t, rows> counter_indices(std::uint64_t key) const;

  std::size_t mask_;  // of a row: its number of counters - 1
  std::uint64_t until_halved_, sightings_ = 0;
  std::vector<std::uint8_t> counts_;  // [rows, mask_ + 1]
};

}  // namespace troupe::placement
