#pragma once
// What a decoder's pass, and in part that of other families, does between products and attention, on the
// device. Memory-bound all: each reads its inputs and writes its outputs once. Sums are float32; `half` is
// the format of weights and activations, except queries, which are as the keys are, or bf16 (attend.h).
// Pointers are to device memory, rows are dense, features come in eights and are 16-byte aligned. Functions
// only enqueue.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/half_format.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// out[r] = table[tokens[r]], in float32.
void embed(HalfFormat half, const std::uint16_t* table, const std::uint32_t* tokens, std::uint32_t rows,
           std::uint32_t width, float* out, Stream& stream);

// RmsNorm (kernels/operations/elementwise.h), rounded, or in float32; that one may stay in place.
void rms_norm_half(HalfFormat half, const float* in, const float* weight, float epsilon, std::uint32_t rows,
                   std::uint32_t width, std::uint16_t* out, Stream& stream);
void rms_norm(const float* in, const float* weight, float epsilon, std::uint32_t rows, std::uint32_t width,
              float* out, Stream& stream);

// SwiGlu (kernels/operations/elementwise.h) of rounded numbers.
void swiglu_half(HalfFormat half, const std::uint16_t* gate_up, std::uint32_t rows, std::uint32_t width,
                 std::uint16_t* out, Stream& stream);

// Queries, keys and values of every row become what attention reads: they pass through SiLU (HSTU), queries
// and keys are normed where there are norms, and rotated to their positions; queries are multiplied by a
// scale of the row and head, and rounded; keys and values are stored in their rows' slots.
struct HeadRows {
  const float* qkv = nullptr;
  std::size_t stride = 0;                                // numbers from row to row
  std::uint32_t query_at = 0, key_at = 0, value_at = 0;  // first numbers in a row, head after head
  const float* q_norm = nullptr;                         // [head_dim]; null: none
  const float* k_norm = nullptr;
  float epsilon = 0;
  const float* rotations = nullptr;  // [positions][head_dim / 2] cosines and sines, in pairs; null: none
  const std::uint32_t* positions = nullptr;
  bool silu = false;
  // Not null: the first heads * head_dim numbers of each row pass through SiLU and go back to this, which is
  // `qkv`.
  float* gates = nullptr;
  const float* scales = nullptr;  // [scale row][heads]; null: none
  const std::uint32_t* scale_rows = nullptr;
  std::byte* const* slots = nullptr;  // addresses of tokens; null: not a row, left alone
  std::uint16_t* queries =
      nullptr;  // [rows][heads * head_dim], bf16, or as keys are (f32: each vector in its parts)
  bool queries_as_keys = false;
  std::uint32_t rows = 0, heads = 0, layer = 0;
};
void make_heads(const KvLayout& layout, const HeadRows& task, Stream& stream);

// states_out[i] = states[rows[i]], queries_out[i] = queries[rows[i]].
struct PickedRows {
  const std::uint32_t* rows = nullptr;
  std::uint32_t count = 0, width = 0, query_width = 0;
  const float* states = nullptr;
  const std::uint16_t* queries = nullptr;
  float* states_out = nullptr;
  std::uint16_t* queries_out = nullptr;
};
void pick_rows(const PickedRows& task, Stream& stream);

// out[i] = states[rows[i]], rounded.
void round_rows(HalfFormat half, const float* states, const std::uint32_t* rows, std::uint32_t count,
                std::uint32_t width, std::uint16_t* out, Stream& stream);

// Zeros for all layers of tokens addresses[0 .. *count).
void clear_tokens(const KvLayout& layout, std::byte* const* addresses, const std::uint32_t* count,
                  Stream& stream);

inline constexpr std::uint32_t readout_block_rows = 8, readout_block_states = 8;

// Logits of `rows` vocabulary rows for `states` states: out[s * stride + r]. Numbers of rows and states stand
// in lists; a block of no states is no work.
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
// Of a projection in float32, which `output_f32` is.
void read_out_f32(const ReadoutTask& task, const float* output_f32, Stream& stream);

}  // namespace troupe::kernels::cuda
