// Device kernels for rows of HSTU and Climber between products and attention: sums of embeddings,
// norms with gates, mixtures of experts.
#include "kernels/cuda/kernels/rows.h"

#include "kernels/base/check.h"
#include "kernels/cuda/kernels/row_numbers_inl.h"
#include "kernels/cuda/kernels/sums_inl.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256, warps = threads / warp_threads;

TROUPE_KERNEL(threads) sum_rows_kernel(RowSum task) {
  const std::uint32_t row = block_x() * warps + warp();
  if (row >= task.rows) return;
  for (std::uint32_t i = lane(); i < task.width; i += warp_threads) {
    float sum = task.scale * task.tables[0][task.numbers[0][row] * std::size_t{task.width} + i];
    for (unsigned t = 1; t < 3 && task.tables[t] != nullptr; ++t)
      sum += task.tables[t][task.numbers[t][row] * std::size_t{task.width} + i];
    task.out[row * std::size_t{task.width} + i] = sum;
  }
}

TROUPE_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exp_fast(-x)); }

struct ShiftedScaled {
  float shift = 0, scale = 1;
};

// Returns the shift and scale of a row to all lanes.
TROUPE_DEVICE ShiftedScaled normed_by(const RowTransform& task, const float* in) {
  const auto number = [&](std::uint32_t i) { return task.silu ? in[i] * sigmoid(in[i]) : in[i]; };
  ShiftedScaled by;
  if (task.norm == RowNorm::moments) {
    float sum = 0;
    for (std::uint32_t i = lane(); i < task.width; i += warp_threads) sum += number(i);
    by.shift = warp_sum(sum) / static_cast<float>(task.width);
  }
  float squares = 0;
  for (std::uint32_t i = lane(); i < task.width; i += warp_threads) {
    const float x = number(i) - by.shift;
    squares += x * x;
  }
  squares = warp_sum(squares);
  if (task.norm == RowNorm::moments)
    by.scale = rsqrt_fast(squares / static_cast<float>(task.width) + task.epsilon);
  else
    by.scale = 1.0f / larger(root(squares), task.epsilon);
  return by;
}

template <class Format>
TROUPE_KERNEL(threads)
make_rows_kernel(RowTransform task) {
  const std::uint32_t row = block_x() * warps + warp();
  if (row >= task.rows) return;
  const float* const in = task.in + (task.in_rows == nullptr ? row : task.in_rows[row]) * task.in_stride;
  const float* gates = nullptr;
  if (task.gate != RowGate::none)
    gates = task.gates + (task.gate_rows == nullptr ? row : task.gate_rows[row]) * task.gate_stride;
  ShiftedScaled by;
  if (task.norm != RowNorm::none) by = normed_by(task, in);
  for (std::uint32_t i = lane(); i < task.width; i += warp_threads) {
    float x = task.silu ? in[i] * sigmoid(in[i]) : in[i];
    x = (x - by.shift) * by.scale;
    if (task.weight != nullptr) x = x * task.weight[i] + task.bias[i];
    if (gates != nullptr) x *= task.gate == RowGate::times ? gates[i] : sigmoid(gates[i]);
    if (task.out_f32 != nullptr)
      task.out_f32[row * task.out_stride + i] = x;
    else
      RowNumbers<Format>::write(task.out, row, task.inputs, task.column + i, x);
  }
}

template <class Format>
TROUPE_KERNEL(threads)
mix_experts_kernel(ExpertMix task) {
  const std::uint32_t row = block_x() * warps + warp();
  if (row >= task.rows) return;
  const float* const gates = task.gates + row * task.gate_stride;
  const float* const opinions = task.opinions + row * task.opinion_stride;
  float most = gates[0], total = 0;
  for (std::uint32_t x = 1; x < task.experts; ++x) most = larger(most, gates[x]);
  for (std::uint32_t x = 0; x < task.experts; ++x) total += exp_fast(gates[x] - most);
  for (std::uint32_t i = lane(); i < task.size; i += warp_threads) {
    float sum = 0;
    for (std::uint32_t x = 0; x < task.experts; ++x) {
      const float says = opinions[x * task.size + i];
      sum += exp_fast(gates[x] - most) / total * (says * sigmoid(says));
    }
    RowNumbers<Format>::write(task.out, row, task.size, i, sum);
  }
}

unsigned blocks_of(std::size_t rows) { return static_cast<unsigned>((rows + warps - 1) / warps); }

template <class Task>
auto version_of(RowFormat format, void (*bf16)(Task), void (*f16)(Task), void (*split)(Task)) {
  return format == RowFormat::bf16 ? bf16 : format == RowFormat::f16 ? f16 : split;
}

}  // namespace

void sum_rows(const RowSum& task, Stream& stream) {
  if (task.rows == 0) return;
  launch("sum_rows", sum_rows_kernel, {.blocks = blocks_of(task.rows), .threads = threads}, stream, task);
}

void transform_rows(const RowTransform& task, Stream& stream) {
  if (task.rows == 0) return;
  TROUPE_CHECK(task.out_f32 != nullptr || task.column + task.width <= task.inputs,
               "a row is wide enough for its numbers");
  launch("make_rows",
         version_of(task.format, make_rows_kernel<Bf16>, make_rows_kernel<F16>, make_rows_kernel<Split>),
         {.blocks = blocks_of(task.rows), .threads = threads}, stream, task);
}

void mix_experts(const ExpertMix& task, Stream& stream) {
  if (task.rows == 0) return;
  launch(
      "mix_experts",
      version_of(task.format, mix_experts_kernel<Bf16>, mix_experts_kernel<F16>, mix_experts_kernel<Split>),
      {.blocks = blocks_of(task.rows), .threads = threads}, stream, task);
}

}  // namespace troupe::kernels::cuda
