#pragma once
// Kernels of a decoder's pass between products and attention; other families use some of them. All
// are memory-bound: each reads its inputs and writes its outputs once. Sums are float32. `half` is
// the format of weights and activations; queries have the keys' format, or bf16 (attend.h).
// Pointers are device addresses, rows are dense, numbers of features are multiples of 8 and rows
// 16-byte aligned. Functions only enqueue.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// Computes out[r] = table[tokens[r]], in float32.
void embed(HalfFormat half, const std::uint16_t* table, const std::uint32_t* tokens, std::uint32_t rows,
           std::uint32_t width, float* out, Stream& stream);

// Compute RmsNorm (kernels/operations/elementwise.h), rounded or in float32; the latter may work in
// place.
void rms_norm_half(HalfFormat half, const float* in, const float* weight, float epsilon, std::uint32_t rows,
                   std::uint32_t width, std::uint16_t* out, Stream& stream);
void rms_norm(const float* in, const float* weight, float epsilon, std::uint32_t rows, std::uint32_t width,
              float* out, Stream& stream);

// Computes SwiGlu (kernels/operations/elementwise.h) of rounded numbers.
void swiglu_half(HalfFormat half, const std::uint16_t* gate_up, std::uint32_t rows, std::uint32_t width,
                 std::uint16_t* out, Stream& stream);

// Turns the queries, keys and values of every row into what attention reads. They pass through SiLU
// (HSTU); queries and keys are normed if there are norms, and rotated to their positions; queries
// are multiplied by a scale per row and head, and rounded; keys and values are stored in their
// rows' slots.
struct HeadRows {
  const float* qkv = nullptr;
  std::size_t stride = 0;  // numbers from row to row
  // Index of the first number in a row, head after head.
  std::uint32_t query_at = 0, key_at = 0, value_at = 0;
  const float* q_norm = nullptr;  // [head_dim]; null: none
  const float* k_norm = nullptr;
  float epsilon = 0;
  const float* rotations = nullptr;  // [positions][head_dim / 2] pairs of cosine and sine; null: none
  const std::uint32_t* positions = nullptr;
  bool silu = false;
  // Not null: must be `qkv`; the first heads * head_dim numbers of each row pass through SiLU in
  // place.
  float* gates = nullptr;
  const float* scales = nullptr;  // [scale row][heads]; null: none
  const std::uint32_t* scale_rows = nullptr;
  std::byte* const* slots = nullptr;  // token addresses; a null address marks padding, which is skipped
  // [rows][heads * head_dim], bf16, or in the keys' format (f32: each vector in its parts).
  std::uint16_t* queries = nullptr;
  bool queries_as_keys = false;
  std::uint32_t rows = 0, heads = 0, layer = 0;
};
void make_heads(const KvLayout& layout, const HeadRows& task, Stream& stream);

// Computes states_out[i] = states[rows[i]] and queries_out[i] = queries[rows[i]].
struct RowGather {
  const std::uint32_t* rows = nullptr;
  std::uint32_t count = 0, width = 0, query_width = 0;
  const float* states = nullptr;
  const std::uint16_t* queries = nullptr;
  float* states_out = nullptr;
  std::uint16_t* queries_out = nullptr;
};
void gather_rows(const RowGather& task, Stream& stream);

// Computes out[i] = states[rows[i]], rounded.
void round_rows(HalfFormat half, const float* states, const std::uint32_t* rows, std::uint32_t count,
                std::uint32_t width, std::uint16_t* out, Stream& stream);

// Writes zeros to all layers of the tokens addresses[0 .. *count).
void clear_tokens(const KvLayout& layout, std::byte* const* addresses, const std::uint32_t* count,
                  Stream& stream);

inline constexpr std::uint32_t readout_block_rows = 8, readout_block_states = 8;

// Computes the logits of `rows` vocabulary rows for `states` states: out[s * stride + r]. Row and
// state indices are in lists. A block without states is idle padding.
struct ReadoutBlock {
  std::uint32_t row_begin = 0, rows = 0;
  std::uint32_t state_begin = 0, states = 0;
  std::uint32_t out = 0, stride = 0;
};
struct ReadoutTask {
  const ReadoutBlock* blocks = nullptr;
  std::uint32_t count = 0, width = 0;
  const std::uint32_t* lists = nullptr;
  const void* output = nullptr;   // [vocabulary][width]
  const float* states = nullptr;  // [states][width]
  float* out = nullptr;
};
void read_out(HalfFormat half, const ReadoutTask& task, Stream& stream);
// Reads out with a projection in float32, `output_f32`.
void read_out_f32(const ReadoutTask& task, const float* output_f32, Stream& stream);

}  // namespace troupe::kernels::cuda
