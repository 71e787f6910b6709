#pragma once
// What rows of HSTU and Climber become between products and attention, on the device. Memory-bound all: each
// reads its inputs and writes its outputs once, a warp a row. Arithmetic is float32. Pointers are to device
// memory; rows of 16-bit numbers are what products take (RowFormat). Functions only enqueue.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

// out[r] = scale * tables[0][numbers[0][r]] + tables[1][numbers[1][r]] + …; a table of null ends the sum.
struct SummedRows {
  const float* tables[3] = {};
  const std::uint32_t* numbers[3] = {};
  float scale = 1;
  std::uint32_t rows = 0, width = 0;
  float* out = nullptr;  // dense
};
void sum_rows(const SummedRows& task, Stream& stream);

// y = in, or silu of it; then normed: by mean and variance (divided by the width), with a weight and a bias
// where there are any, or to unit length (at least epsilon); then multiplied by a gate, or by its sigmoid.
enum class RowNorm : std::uint8_t { none, moments, length };
enum class RowGate : std::uint8_t { none, times, sigmoid };
struct MadeRows {
  const float* in = nullptr;
  std::size_t in_stride = 0;
  const std::uint32_t* in_rows = nullptr;  // the row of `in` for each row; null: the same
  bool silu = false;
  RowNorm norm = RowNorm::none;
  const float *weight = nullptr, *bias = nullptr;
  float epsilon = 0;
  RowGate gate = RowGate::none;
  const float* gates = nullptr;
  std::size_t gate_stride = 0;
  const std::uint32_t* gate_rows = nullptr;  // the row of `gates` for each row; null: the same
  std::uint32_t rows = 0, width = 0;
  // Where to: for products, rows of `inputs` numbers (each in its parts) of which these are those from
  // `column` on; or in float32.
  RowFormat format = RowFormat::bf16;
  std::uint16_t* out = nullptr;
  std::uint32_t inputs = 0, column = 0;
  float* out_f32 = nullptr;
  std::size_t out_stride = 0;  // of out_f32
};
void make_rows(const MadeRows& task, Stream& stream);

// Climber's experts, for one task: the softmax of a row's gates over the experts, and the sum of silu of what
// they say by these shares.
struct MixedExperts {
  const float* opinions = nullptr;  // [expert][number] of a row
  std::size_t opinion_stride = 0;
  const float* gates = nullptr;  // [expert] of a row
  std::size_t gate_stride = 0;
  std::uint32_t rows = 0, experts = 0, size = 0;
  RowFormat format = RowFormat::bf16;
  std::uint16_t* out = nullptr;
};
void mix_experts(const MixedExperts& task, Stream& stream);

}  // namespace troupe::kernels::cuda
