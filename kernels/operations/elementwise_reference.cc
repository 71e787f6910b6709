// Defines the small kernels between matrix products (norms, rotation, activation) in double, in the
// plainest way; faster versions are tested against it.
#include <cmath>

#include "kernels/operations/elementwise_versions.h"

namespace troupe::kernels::reference {

void rms_norm(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
              std::size_t out_stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += out_stride) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += double(in[i]) * in[i];
    const double factor = 1 / std::sqrt(squares / double(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) out[i] = float(in[i] * factor * weight[i]);
  }
}

void rope(float* values, std::size_t stride, std::size_t rows, std::size_t heads, std::size_t head_dim,
          const float* cosines, const float* sines) {
  const std::size_t half = head_dim / 2;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < half; ++i) {
        float* const pair = values + r * stride + h * head_dim + i;
        const double c = cosines[r * half + i], s = sines[r * half + i], first = pair[0], second = pair[half];
        pair[0] = float(first * c - second * s);
        pair[half] = float(second * c + first * s);
      }
}

void swiglu(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
            std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, gate_up += in_stride, out += out_stride)
    for (std::size_t i = 0; i < width; ++i) {
      const double gate = gate_up[i], up = gate_up[width + i];
      out[i] = float(gate / (1 + std::exp(-gate)) * up);
    }
}

void add_rows(const float* in, std::size_t in_stride, float* out, std::size_t out_stride, std::size_t rows,
              std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, out += out_stride)
    for (std::size_t i = 0; i < width; ++i) out[i] += in[i];
}

void sigmoid_gate(const float* in, std::size_t in_stride, const float* gate, float* out,
                  std::size_t out_stride, std::size_t rows, std::size_t width) {
  for (std::size_t r = 0; r < rows; ++r, in += in_stride, gate += out_stride, out += out_stride)
    for (std::size_t i = 0; i < width; ++i) out[i] = float(double(in[i]) / (1 + std::exp(-double(gate[i]))));
}

}  // namespace troupe::kernels::reference
