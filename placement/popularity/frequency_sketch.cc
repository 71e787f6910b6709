// Estimates how often each of very many keys was seen recently, in a small fixed memory (a
// count-min sketch with halved counts).
#include "placement/popularity/frequency_sketch.h"

#include <algorithm>
#include <bit>

namespace troupe::placement {
namespace {

constexpr std::size_t entries_min = 64, counters_per_entry_and_row = 2, sightings_per_entry = 16;
constexpr std::uint8_t count_most = 255;

}  // namespace

FrequencySketch::FrequencySketch(std::size_t entries)
    : mask_(std::bit_ceil(std::max(entries, entries_min) * counters_per_entry_and_row) - 1),
      until_halved_(std::max(entries, entries_min) * sightings_per_entry),
      counts_(rows * (mask_ + 1)) {}

// Derives all rows' positions from the two halves of the key (double hashing).
std::array<std::size_t, FrequencySketch::rows> FrequencySketch::counter_indices(std::uint64_t key) const {
  std::array<std::size_t, rows> counter_indices;
  const std::uint64_t step = (key >> 32) | 1;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t mixed = (key + row * step) * 0x9e3779b97f4a7c15U;
    counter_indices[row] = row * (mask_ + 1) + ((mixed >> 32) & mask_);
  }
  return counter_indices;
}

// Increments only the smallest counts of a key (conservative update): larger counts belong to other
// keys as well.
void FrequencySketch::touch(std::uint64_t key) {
  const std::uint32_t least = count(key);
  for (const std::size_t index : counter_indices(key))
    if (counts_[index] == least && least < count_most) ++counts_[index];
  if (++sightings_ < until_halved_) return;
  for (std::uint8_t& count : counts_) count = static_cast<std::uint8_t>(count / 2);
  sightings_ = 0;
}

std::uint32_t FrequencySketch::count(std::uint64_t key) const {
  std::uint32_t least = count_most;
  for (const std::size_t index : counter_indices(key)) least = std::min<std::uint32_t>(least, counts_[index]);
  return least;
}

}  // namespace troupe::placement
