#pragma once
// The kernels of HSTU and SASRec between their products: SiLU (Zhai et al. 2024, §3.1), GELU, and a
// norm of rows with a gate on them. Each is memory-bound: bytes moved = inputs + outputs, once. Strides are
// in floats; in-place use is allowed where out == in.
#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::kernels {

// values[r][i] = silu(values[r][i]) for `width` values of each of `rows` rows.
using SiluRows = void(float* values, std::size_t stride, std::size_t rows, std::size_t width);

// The same with gelu(z) = z / 2 * (1 + erf(z / sqrt(2))), not its tanh approximation.
using GeluRows = void(float* values, std::size_t stride, std::size_t rows, std::size_t width);

// out[r] = ((in[r] - mean) / sqrt(variance + epsilon) * weight + bias) * gate[r], over the row's `width`
// values with the variance that divides by their number. Without a weight, a bias, a gate (null) that step is
// left out.
struct NormTask {
  const float* in = nullptr;
  float* out = nullptr;
  const float* gate = nullptr;
  std::size_t in_stride = 0, out_stride = 0, gate_stride = 0;
  std::size_t rows = 0, width = 0;
  const float *weight = nullptr, *bias = nullptr;
  float epsilon = 0;
};
using NormRows = void(const NormTask& task);

// One set of versions per instruction set; `gates()` is the best that this CPU can run.
struct Gates {
  std::string_view name;
  SiluRows* silu;
  GeluRows* gelu;
  NormRows* norm;
  bool usable;
};
SiluRows silu_rows_reference;
GeluRows gelu_rows_reference;
NormRows norm_rows_reference;
std::span<const Gates> gate_versions();  // the last is "reference"
const Gates& gates();

}  // namespace troupe::kernels
