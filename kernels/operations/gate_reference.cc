// Defines SiLU, GELU and the gated norm, in double; faster versions are tested against it.
#include <cmath>

#include "kernels/operations/gate.h"

namespace troupe::kernels {

void silu_rows_reference(float* values, std::size_t stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; ++i) {
      const double z = values[r * stride + i];
      values[r * stride + i] = static_cast<float>(z / (1 + std::exp(-z)));
    }
}

void gelu_rows_reference(float* values, std::size_t stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < width; ++i) {
      const double z = values[r * stride + i];
      values[r * stride + i] = static_cast<float>(z / 2 * (1 + std::erf(z / std::sqrt(2.0))));
    }
}

void norm_rows_reference(const NormTask& task) {
  for (std::size_t r = 0; r < task.rows; ++r) {
    const float* const in = task.in + r * task.in_stride;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < task.width; ++i) sum += in[i];
    const double mean = sum / static_cast<double>(task.width);
    for (std::size_t i = 0; i < task.width; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(task.width) + task.epsilon);
    for (std::size_t i = 0; i < task.width; ++i) {
      double value = (in[i] - mean) * factor;
      if (task.weight != nullptr) value *= task.weight[i];
      if (task.bias != nullptr) value += task.bias[i];
      if (task.gate != nullptr) value *= task.gate[r * task.gate_stride + i];
      task.out[r * task.out_stride + i] = static_cast<float>(value);
    }
  }
}

}  // namespace troupe::kernels
