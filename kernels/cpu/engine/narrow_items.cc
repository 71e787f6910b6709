// Packs the item table in bf16 and bounds the error of products with it.
#include "kernels/cpu/engine/narrow_items.h"

#include <cmath>

namespace troupe::kernels {
namespace {

double length_of(std::span<const float> numbers) {
  double sum = 0;
  for (const float number : numbers) sum += double{number} * double{number};
  return std::sqrt(sum);
}

}  // namespace

// A number is rounded to bf16 with a relative error of at most u = 2^-8. So a product of two is off by at
// most 2u + u² of itself, and their sum by that share of Σ |state · row|, which is at most the product
// of the lengths (Cauchy-Schwarz). Summing n products in float32 adds n · 2^-24 of it, twice as much
// where a CPU rounds sums and products, and the float32 score has as much. Numbers below 2^-126 may
// count as 0.
double NarrowTable::error_of(std::span<const float> state) const {
  const double u = 0x1p-8, n = static_cast<double>(state.size());
  return (2 * u + u * u + n * 0x1p-22) * length_of(state) * largest + n * 0x1p-100;
}

NarrowTable narrow_table(const Matrix& items, std::span<const float> factors, std::size_t panel_width) {
  WeightMemory memory;
  NarrowTable table{PackedMatrix(items, {}, panel_width, memory, WeightFormat::bf16), 0};
  const std::span<const float> values = items.values;
  for (std::size_t row = 0; row < items.rows; ++row) {
    const double length =
        length_of(values.subspan(row * items.columns, items.columns)) * std::abs(double{factors[row]});
    if (!(length <= table.largest)) table.largest = length;
    if (std::isnan(length)) break;
  }
  return table;
}

}  // namespace troupe::kernels
