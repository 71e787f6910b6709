// Packs a weight matrix into panels, the order in which the CPU's product reads it. A panel is a
// few rows of the weight, side by side and padded with zeros.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/base/check.h"
#include "kernels/base/float_formats.h"
#include "kernels/cpu/products/product.h"

namespace troupe::kernels {
namespace {

float word_of(const std::uint8_t (&bytes)[4]) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word |= std::uint32_t{bytes[i]} << 8 * i;
  return std::bit_cast<float>(word);
}

float pair_of(float first, float second) {
  return std::bit_cast<float>(std::uint32_t{to_bf16(second)} << 16 | to_bf16(first));
}

}  // namespace

PackedMatrix::PackedMatrix(const Matrix& weight, std::span<const float> bias, std::size_t panel_width,
                           WeightMemory& memory, WeightFormat format)
    : rows_(weight.rows), columns_(weight.columns), panel_width_(panel_width), format_(format) {
  TROUPE_CHECK(rows_ > 0 && columns_ > 0 && panel_width_ > 0,
               "packed matrix: expected rows, columns and a panel width above 0");
  TROUPE_CHECK(weight.values.size() == rows_ * columns_, "packed matrix: the weight must be rows × columns");
  TROUPE_CHECK(bias.empty() || bias.size() == rows_,
               "packed matrix: expected one bias per row of the weight, or none");
  TROUPE_CHECK(format != WeightFormat::int8, "packed matrix: expected the format f32 or bf16");
  const std::size_t padded = panels() * panel_width_;
  const std::shared_ptr<float> values = memory.take(padded * (words() + 1));
  const auto value_at = [&](std::size_t row, std::size_t column) {
    return row < rows_ && column < columns_ ? weight.values[row * columns_ + column] : 0.0f;
  };
  float* to = values.get();
  for (std::size_t first = 0; first < padded; first += panel_width_)
    for (std::size_t word = 0; word < words(); ++word)
      for (std::size_t row = first; row < first + panel_width_; ++row)
        *to++ = format == WeightFormat::bf16 ? pair_of(value_at(row, 2 * word), value_at(row, 2 * word + 1))
                                             : value_at(row, word);
  std::fill(std::copy(bias.begin(), bias.end(), to), to + padded, 0.0f);
  values_ = values;
}

PackedMatrix::PackedMatrix(const QuantizedMatrix& weight, std::size_t panel_width, WeightMemory& memory)
    : rows_(weight.rows), columns_(weight.columns), panel_width_(panel_width), format_(WeightFormat::int8) {
  TROUPE_CHECK(rows_ > 0 && columns_ > 0 && panel_width_ > 0,
               "packed matrix: expected rows, columns and a panel width above 0");
  TROUPE_CHECK(weight.values.size() == rows_ * columns_, "packed matrix: the weight must be rows × columns");
  const std::size_t padded = panels() * panel_width_;
  const std::shared_ptr<float> values = memory.take(padded * (words() + 1));
  const auto byte_at = [&](std::size_t row, std::size_t column) {
    const bool exists = row < rows_ && column < columns_;
    return static_cast<std::uint8_t>(exists ? weight.values[row * columns_ + column] : 0);
  };
  float* to = values.get();
  for (std::size_t first = 0; first < padded; first += panel_width_)
    for (std::size_t column = 0; column < columns_; column += 4)
      for (std::size_t row = first; row < first + panel_width_; ++row)
        *to++ = word_of({byte_at(row, column), byte_at(row, column + 1), byte_at(row, column + 2),
                         byte_at(row, column + 3)});
  std::fill(to, to + padded, 0.0f);
  values_ = values;
}

float PackedMatrix::value(std::size_t row, std::size_t column) const {
  const float* const lane = panel(row / panel_width_) + row % panel_width_;
  if (format_ == WeightFormat::f32) return lane[column * panel_width_];
  if (format_ == WeightFormat::int8) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(lane[column / 4 * panel_width_]);
    return static_cast<std::int8_t>(word >> 8 * (column % 4));
  }
  const std::uint32_t pair = std::bit_cast<std::uint32_t>(lane[column / 2 * panel_width_]);
  return from_bf16(static_cast<std::uint16_t>(column % 2 == 0 ? pair & 0xffff : pair >> 16));
}

}  // namespace troupe::kernels
