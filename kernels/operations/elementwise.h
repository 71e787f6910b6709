#pragma once
// The small kernels between the matrix products. Each is memory-bound: bytes moved = inputs + outputs, once.
// Every function works on `rows` rows; strides are in floats. In-place use is allowed where out == in.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::kernels {

// out[r] = in[r] / sqrt(mean(in[r]^2) + epsilon) * weight; rows of `width` floats.
using RmsNorm = void(const float* in, std::size_t in_stride, const float* weight, float epsilon, float* out,
                     std::size_t out_stride, std::size_t rows, std::size_t width);

// Rotates pairs (i, i + head_dim/2) of each of `heads` heads in place by the angle whose cosine and sine are
// cosines[r*(head_dim/2) + i], sines[…]. (RoPE, Su et al. 2021, Hugging Face pairing.)
using Rope = void(float* values, std::size_t stride, std::size_t rows, std::size_t heads,
                  std::size_t head_dim, const float* cosines, const float* sines);

// out[r][i] = silu(gate_up[r][i]) * gate_up[r][width + i]: gate and up projections are side by
// side.
using SwiGlu = void(const float* gate_up, std::size_t in_stride, float* out, std::size_t out_stride,
                    std::size_t rows, std::size_t width);

// out[r] += in[r].
using AddRows = void(const float* in, std::size_t in_stride, float* out, std::size_t out_stride,
                     std::size_t rows, std::size_t width);

// out[r][i] = in[r][i] / (1 + e^-gate[r][i]). Gates have the stride of `out`, and `out` may be the
// gates.
using SigmoidGate = void(const float* in, std::size_t in_stride, const float* gate, float* out,
                         std::size_t out_stride, std::size_t rows, std::size_t width);

// One set of versions per instruction set; `elementwise()` is the best that this CPU can run.
struct Elementwise {
  std::string_view name;  // "reference", "avx512", "avx2", …
  RmsNorm* rms_norm;
  Rope* rope;
  SwiGlu* swiglu;
  AddRows* add_rows;
  SigmoidGate* sigmoid_gate;
  bool usable;
};
std::span<const Elementwise> elementwise_versions();  // the last is "reference"
const Elementwise& elementwise();

}  // namespace troupe::kernels
