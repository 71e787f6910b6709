// Packs a weight matrix into panels, the order in which the CPU's product reads it. A panel is a
// few rows of the weight, side by side and padded with zeros.
#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/cpu/products/product.h"

namespace troupe::kernels {

PackedMatrix::PackedMatrix(const Matrix& weight, std::span<const float> bias, std::size_t panel_width,
                           WeightMemory& memory)
    : rows_(weight.rows), columns_(weight.columns), panel_width_(panel_width) {
  TROUPE_CHECK(rows_ > 0 && columns_ > 0 && panel_width_ > 0,
               "packed matrix: expected rows, columns and a panel width above 0");
  TROUPE_CHECK(weight.values.size() == rows_ * columns_, "packed matrix: the weight must be rows × columns");
  TROUPE_CHECK(bias.empty() || bias.size() == rows_,
               "packed matrix: expected one bias per row of the weight, or none");
  const std::size_t padded = panels() * panel_width_;
  const std::shared_ptr<float> values = memory.take(padded * (columns_ + 1));
  float* to = values.get();
  for (std::size_t first = 0; first < padded; first += panel_width_)
    for (std::size_t k = 0; k < columns_; ++k)
      for (std::size_t row = first; row < first + panel_width_; ++row)
        *to++ = row < rows_ ? weight.values[row * columns_ + k] : 0.0f;
  std::fill(std::copy(bias.begin(), bias.end(), to), to + padded, 0.0f);
  values_ = values;
}

}  // namespace troupe::kernels
