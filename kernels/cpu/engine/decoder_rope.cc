// Keeps a table of the cosines and sines of rotary positions. A pass copies rows of it, because
// computing them anew would cost as much as a layer.
#include "kernels/cpu/engine/decoder_rope.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace troupe::kernels {

void RopeTable::gather(std::span<const std::uint32_t> positions) {
  if (positions.empty()) return;
  const std::size_t width = frequencies_.size();
  grow(std::size_t{*std::max_element(positions.begin(), positions.end())} + 1);
  cosines_.reserve(positions.size() * width);
  sines_.reserve(positions.size() * width);
  for (std::size_t r = 0; r < positions.size(); ++r) {
    std::copy_n(&cosine_table_[positions[r] * width], width, cosines_.data() + r * width);
    std::copy_n(&sine_table_[positions[r] * width], width, sines_.data() + r * width);
  }
}

void RopeTable::shrink(std::size_t rows) {
  cosines_.shrink(rows * frequencies_.size());
  sines_.shrink(rows * frequencies_.size());
}

void RopeTable::gather_distances(std::span<const std::int32_t> distances) {
  if (distances.empty()) return;
  const std::size_t width = frequencies_.size();
  std::size_t furthest = 0;
  for (const std::int32_t d : distances) furthest = std::max<std::size_t>(furthest, std::abs(d));
  grow(furthest + 1);
  cosines_.reserve(distances.size() * width);
  sines_.reserve(distances.size() * width);
  for (std::size_t n = 0; n < distances.size(); ++n) {
    const std::size_t from = static_cast<std::size_t>(std::abs(distances[n])) * width;
    const float sign = distances[n] < 0 ? -1.0f : 1.0f;
    std::copy_n(&cosine_table_[from], width, cosines_.data() + n * width);
    for (std::size_t i = 0; i < width; ++i) sines_.data()[n * width + i] = sign * sine_table_[from + i];
  }
}

void RopeTable::grow(std::size_t positions) {
  const std::size_t width = frequencies_.size();
  const std::size_t known = cosine_table_.size() / width;
  if (positions <= known) return;
  positions = (positions + 255) / 256 * 256;
  cosine_table_.resize(positions * width);
  sine_table_.resize(positions * width);
  for (std::size_t p = known; p < positions; ++p) {
    for (std::size_t i = 0; i < width; ++i) {
      const double angle = static_cast<double>(p) * frequencies_[i];
      cosine_table_[p * width + i] = static_cast<float>(std::cos(angle));
      sine_table_[p * width + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace troupe::kernels
