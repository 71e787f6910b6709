#pragma once
// Cosines and sines of rotary positions. Angles are computed in double, once per position ever
// seen: otherwise sine and cosine would cost as much as a layer. A pass only copies rows of the
// table, which grows to the largest position seen.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_buffer.h"

namespace troupe::kernels {

class RopeTable {
 public:
  explicit RopeTable(std::vector<double> frequencies) : frequencies_(std::move(frequencies)) {}

  // Sets cosines() and sines() to one row of frequencies per position, in this order, or per
  // distance (of either sign) by which keys are rotated.
  void gather(std::span<const std::uint32_t> positions);
  void gather_distances(std::span<const std::int32_t> distances);
  void shrink(std::size_t rows);  // frees memory for more rows
  const float* cosines() const { return cosines_.data(); }
  const float* sines() const { return sines_.data(); }

 private:
  void grow(std::size_t positions);

  std::vector<double> frequencies_;
  std::vector<float> cosine_table_, sine_table_;  // [position][frequency]
  FloatBuffer cosines_, sines_;
};

}  // namespace troupe::kernels
