#pragma once
// Kernels for rows of HSTU and Climber between products and attention. All are memory-bound: each
// reads its inputs and writes its outputs once, with one warp per row. Arithmetic is float32.
// Pointers are device addresses; rows of 16-bit numbers have the format that products take
// (RowFormat). Functions only enqueue.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"

namespace troupe::kernels::cuda {

// Computes out[r] = scale * tables[0][numbers[0][r]] + tables[1][numbers[1][r]] + …; a null table
// ends the sum.
struct RowSum {
  const float* tables[3] = {};
  const std::uint32_t* numbers[3] = {};
  float scale = 1;
  std::uint32_t rows = 0, width = 0;
  float* out = nullptr;  // dense
};
void sum_rows(const RowSum& task, Stream& stream);

// Computes y = in, or silu(in). Then norms it, by mean and variance (divided by the width) with an
// optional weight and bias, or to unit length (at least epsilon). Then multiplies it by a gate, or
// by the gate's sigmoid.
enum class RowNorm : std::uint8_t { none, moments, length };
enum class RowGate : std::uint8_t { none, times, sigmoid };
struct RowTransform {
  const float* in = nullptr;
  std::size_t in_stride = 0;
  const std::uint32_t* in_rows = nullptr;  // row of `in` per row; null: the same row
  bool silu = false;
  RowNorm norm = RowNorm::none;
  const float *weight = nullptr, *bias = nullptr;
  float epsilon = 0;
  RowGate gate = RowGate::none;
  const float* gates = nullptr;
  std::size_t gate_stride = 0;
  const std::uint32_t* gate_rows = nullptr;  // row of `gates` per row; null: the same row
  std::uint32_t rows = 0, width = 0;
  // Destination: rows of `inputs` numbers for products (each in its parts), from `column` on; or
  // float32.
  RowFormat format = RowFormat::bf16;
  std::uint16_t* out = nullptr;
  std::uint32_t inputs = 0, column = 0;
  float* out_f32 = nullptr;
  std::size_t out_stride = 0;  // of out_f32
};
void transform_rows(const RowTransform& task, Stream& stream);

// Mixes Climber's experts for one task: the softmax of a row's gates over the experts weights the
// sum of silu of the experts' outputs.
struct ExpertMix {
  const float* opinions = nullptr;  // [expert][number] per row
  std::size_t opinion_stride = 0;
  const float* gates = nullptr;  // [expert] per row
  std::size_t gate_stride = 0;
  std::uint32_t rows = 0, experts = 0, size = 0;
  RowFormat format = RowFormat::bf16;
  std::uint16_t* out = nullptr;
};
void mix_experts(const ExpertMix& task, Stream& stream);

}  // namespace troupe::kernels::cuda
