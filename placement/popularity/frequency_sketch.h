#pragma once
// How often each of very many keys was seen lately, in a fixed few bytes: a count-min sketch whose counts are
// halved at times, as TinyLFU keeps it for deciding whom a cache admits (Einziger, Friedman, Manes, "TinyLFU:
// A Highly Efficient Cache Admission Policy", ACM ToS 2017). An estimate is never too small between two
// halvings, but for what is cut off at 255, and rarely too large.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::placement {

class FrequencySketch {
 public:
  // For a cache of so many entries: 8 counters each in 4 rows, halved after 16 sightings per entry.
  explicit FrequencySketch(std::size_t entries);

  void touch(std::uint64_t key);  // keys are well mixed already: hashes, or parts of such
  std::uint32_t count(std::uint64_t key) const;

 private:
  static constexpr std::size_t rows = 4;
  std::array<std::size_t, rows> places(std::uint64_t key) const;

  std::size_t mask_;  // of a row
  std::uint64_t until_halved_, sightings_ = 0;
  std::vector<std::uint8_t> counts_;  // row after row
};

}  // namespace troupe::placement
