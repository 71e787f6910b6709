// Computes the matrix product over packed weights in the plainest way, summed in double.
// Faster versions are tested against it.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cpu/products/product.h"

namespace troupe::kernels {

void product_reference(const PackedMatrix& weight, const ProductTask& task) {
  const std::size_t width = weight.panel_width();
  const std::size_t end = std::min(weight.rows(), std::min(task.panel_end, weight.panels()) * width);
  std::vector<double> values(weight.columns());
  for (std::size_t column = task.panel_begin * width; column < end; ++column) {
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = weight.value(column, k);
    for (std::size_t row = 0; row < task.rows; ++row) {
      const float* const in = task.in + row * task.in_stride;
      float& out = task.out[row * task.out_stride + column];
      double sum = weight.bias(column / width)[column % width];
      for (std::size_t k = 0; k < values.size(); ++k) sum += in[k] * values[k];
      out = static_cast<float>(task.add ? out + sum : sum);
    }
  }
}

}  // namespace troupe::kernels
