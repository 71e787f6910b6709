#pragma once
// Cosines and sines of rotary positions. Angles are computed in double, once per position ever seen, because
// sine and cosine would otherwise cost as much as a layer; a pass then only copies rows. The table grows to
// the largest position seen.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/engine/decoder_buffer.h"

namespace troupe::kernels {

class RopeTable {
 public:
  explicit RopeTable(std::vector<double> frequencies) : frequencies_(std::move(frequencies)) {}

  // Makes cosines() and sines() hold one row of frequencies per position, in this order; or per distance of
  // either sign, by which keys turn.
  void gather(std::span<const std::uint32_t> positions);
  void gather_turns(std::span<const std::int32_t> distances);
  void shrink(std::size_t rows);  // gives memory for more than these back
  const float* cosines() const { return cosines_.data(); }
  const float* sines() const { return sines_.data(); }

 private:
  void grow(std::size_t positions);

  std::vector<double> frequencies_;
  std::vector<float> cosine_table_, sine_table_;  // [position][frequency]
  FloatBuffer cosines_, sines_;
};

}  // namespace troupe::kernels
