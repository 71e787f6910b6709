// Device kernels of a decoder's pass besides products and attention: embedding, norms, rotation of
// queries and keys, activation, gathering, logits.
#include "kernels/cuda/kernels/decoder_kernels.h"

#include "kernels/cuda/kernels/row_numbers_inl.h"
#include "kernels/cuda/kernels/sums_inl.h"
#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda {
namespace {

using namespace simt;

constexpr unsigned threads = 256, warps = threads / warp_threads;

unsigned blocks_for(std::size_t elements) {
  const std::size_t blocks = (elements + threads - 1) / threads;
  // The grid strides over the remaining elements.
  return static_cast<unsigned>(blocks < 1u << 20 ? blocks : 1u << 20);
}
unsigned blocks_of_warps(std::size_t count) { return blocks_for(count * warp_threads); }

TROUPE_DEVICE std::size_t first_element() { return block_x() * std::size_t{threads} + thread_x(); }
TROUPE_DEVICE std::size_t grid_stride() { return blocks_x() * std::size_t{threads}; }

// 16 bytes, moved by one access.
struct alignas(16) Words {
  std::uint32_t at[4];
};
struct alignas(16) Floats {
  float at[4];
};
struct alignas(8) TwoFloats {
  float at[2];
};
// Returns a copy. From a reference the compiler would load only the used numbers, one by one.
template <class T>
TROUPE_DEVICE T as(const void* from) {
  return *static_cast<const T*>(from);
}

template <class Half>
TROUPE_DEVICE void widen(const Words& words, float (&numbers)[8]) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i)
    numbers[2 * i] = low_of<Half>(words.at[i]), numbers[2 * i + 1] = high_of<Half>(words.at[i]);
}
template <class Half>
TROUPE_DEVICE Words narrow(const float (&numbers)[8]) {
  Words words;
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) words.at[i] = pack<Half>(numbers[2 * i], numbers[2 * i + 1]);
  return words;
}

// Copies embedding rows; a thread takes eight features.
template <class Half>
TROUPE_KERNEL(threads)
embed_kernel(const std::uint16_t* table, const std::uint32_t* tokens, std::uint32_t rows, std::uint32_t width,
             float* out) {
  const std::size_t pieces = width / 8;
  for (std::size_t n = first_element(); n < rows * pieces; n += grid_stride()) {
    float numbers[8];
    widen<Half>(as<Words>(table + tokens[n / pieces] * std::size_t{width} + n % pieces * 8), numbers);
    auto* const to = reinterpret_cast<Floats*>(out + n * 8);
    to[0] = {numbers[0], numbers[1], numbers[2], numbers[3]};
    to[1] = {numbers[4], numbers[5], numbers[6], numbers[7]};
  }
}

// Storage of a normed row: a 16-bit format, or float32.
template <class Half>
struct NormStorage {
  using Number = std::uint16_t;
  TROUPE_DEVICE static void four(Number* to, const Floats& x) {
    auto* const words = reinterpret_cast<std::uint32_t*>(to);
    words[0] = pack<Half>(x.at[0], x.at[1]);
    words[1] = pack<Half>(x.at[2], x.at[3]);
  }
};
template <>
struct NormStorage<float> {
  using Number = float;
  TROUPE_DEVICE static void four(Number* to, const Floats& x) { *reinterpret_cast<Floats*>(to) = x; }
};

// Norms a row per block.
template <class Format>
TROUPE_KERNEL(threads)
rms_norm_kernel(const float* in, const float* weight, float epsilon, std::uint32_t width,
                typename NormStorage<Format>::Number* out) {
  const std::size_t row = block_x() * std::size_t{width};
  float squares = 0;
  for (std::size_t i = thread_x() * 4; i < width; i += threads * 4) {
    const Floats x = as<Floats>(in + row + i);
    for (unsigned k = 0; k < 4; ++k) squares += x.at[k] * x.at[k];
  }
  const float scale = rsqrt_fast(block_sum<warps>(squares) / static_cast<float>(width) + epsilon);
  for (std::size_t i = thread_x() * 4; i < width; i += threads * 4) {
    const Floats x = as<Floats>(in + row + i), w = as<Floats>(weight + i);
    Floats normed;
    TROUPE_UNROLL
    for (unsigned k = 0; k < 4; ++k) normed.at[k] = x.at[k] * scale * w.at[k];
    NormStorage<Format>::four(out + row + i, normed);
  }
}

template <class Half>
TROUPE_KERNEL(threads)
swiglu_half_kernel(const std::uint16_t* gate_up, std::uint32_t rows, std::uint32_t width,
                   std::uint16_t* out) {
  const std::size_t pieces = width / 8;
  for (std::size_t n = first_element(); n < rows * pieces; n += grid_stride()) {
    const std::uint16_t* const at = gate_up + n / pieces * 2 * width + n % pieces * 8;
    float gate[8], up[8];
    widen<Half>(as<Words>(at), gate);
    widen<Half>(as<Words>(at + width), up);
    TROUPE_UNROLL
    for (unsigned i = 0; i < 8; ++i) gate[i] = gate[i] / (1.0f + exp_fast(-gate[i])) * up[i];
    *reinterpret_cast<Words*>(out + n * 8) = narrow<Half>(gate);
  }
}

// Byte offsets of a layer's keys and values from a token's address.
struct KvTokenOffsets {
  std::size_t keys;         // to the layer's first head
  std::size_t head_stride;  // from head to head
  std::size_t values;       // from a key to its value
};

TROUPE_DEVICE float silu(float x) { return x / (1.0f + exp_fast(-x)); }

// A head, processed by one warp. It takes pairs i and i + dim/2, two neighbouring pairs per lane.
struct Head {
  const float* from;
  unsigned dim;
  bool silu;
  const float* norm;       // null: none
  const float* rotations;  // for the row's position; null: none
  float scale;
};
template <class Format>
TROUPE_DEVICE void make_head(const Head& head, float epsilon, void* to) {
  const unsigned half = head.dim / 2;
  float scale = head.scale;
  if (head.norm != nullptr) {
    float squares = 0;
    for (unsigned i = lane(); i < head.dim; i += warp_threads) squares += head.from[i] * head.from[i];
    scale *= rsqrt_fast(warp_sum(squares) / static_cast<float>(head.dim) + epsilon);
  }
  for (unsigned i = 2 * lane(); i < half; i += 2 * warp_threads) {
    TwoFloats a = as<TwoFloats>(head.from + i), b = as<TwoFloats>(head.from + half + i);
    Floats rotation{{1, 0, 1, 0}};  // cosine, sine, cosine, sine
    if (head.rotations != nullptr) rotation = as<Floats>(head.rotations + 2 * i);
    for (unsigned k = 0; k < 2; ++k) {
      if (head.silu) a.at[k] = silu(a.at[k]), b.at[k] = silu(b.at[k]);
      if (head.norm != nullptr) a.at[k] *= head.norm[i + k], b.at[k] *= head.norm[half + i + k];
      a.at[k] *= scale, b.at[k] *= scale;
      if (head.rotations == nullptr) continue;
      const float c = rotation.at[2 * k], s = rotation.at[2 * k + 1], x = a.at[k], y = b.at[k];
      a.at[k] = x * c - y * s, b.at[k] = y * c + x * s;
    }
    VectorNumbers<Format>::write_two(to, head.dim, i, a.at[0], a.at[1]);
    VectorNumbers<Format>::write_two(to, head.dim, half + i, b.at[0], b.at[1]);
  }
}

// Processes a head of a row per warp: query heads, key heads, value heads, gates.
template <class Query, class Format>
TROUPE_KERNEL(threads)
make_heads_kernel(HeadRows task, KvTokenOffsets kv, std::uint32_t kv_heads, std::uint32_t dim) {
  const std::uint32_t units = task.heads + 2 * kv_heads + (task.gates != nullptr ? task.heads : 0);
  const std::size_t count = std::size_t{task.rows} * units;
  for (std::size_t n = first_element() / warp_threads; n < count; n += grid_stride() / warp_threads) {
    const std::size_t row = n / units;
    auto head = static_cast<std::uint32_t>(n % units);
    std::byte* const slot = task.slots[row];
    if (slot == nullptr) continue;
    const float* const from = task.qkv + row * task.stride;
    const float* const rotation =
        task.rotations == nullptr ? nullptr : task.rotations + task.positions[row] * std::size_t{dim};
    if (head < task.heads) {
      const float scale =
          task.scales == nullptr ? 1.0f : task.scales[task.scale_rows[row] * std::size_t{task.heads} + head];
      make_head<Query>({from + task.query_at + head * dim, dim, task.silu, task.q_norm, rotation, scale},
                       task.epsilon,
                       task.queries + (row * task.heads + head) * dim * VectorNumbers<Query>::parts);
    } else if ((head -= task.heads) < kv_heads) {
      make_head<Format>({from + task.key_at + head * dim, dim, task.silu, task.k_norm, rotation, 1},
                        task.epsilon, slot + kv.keys + head * kv.head_stride);
    } else if ((head -= kv_heads) < kv_heads) {
      make_head<Format>({from + task.value_at + head * dim, dim, task.silu, nullptr, nullptr, 1},
                        task.epsilon, slot + kv.keys + head * kv.head_stride + kv.values);
    } else {
      head -= kv_heads;
      float* const gates = task.gates + row * task.stride + head * dim;
      for (unsigned i = lane(); i < dim; i += warp_threads) gates[i] = silu(gates[i]);
    }
  }
}

TROUPE_KERNEL(threads) pick_rows_kernel(RowGather task) {
  const std::size_t state_pieces = task.width / 4, query_pieces = task.query_width / 8;
  const std::size_t pieces = state_pieces + query_pieces;
  for (std::size_t n = first_element(); n < task.count * pieces; n += grid_stride()) {
    const std::size_t to = n / pieces, from = task.rows[to], i = n % pieces;
    if (i < state_pieces) {
      reinterpret_cast<Floats*>(task.states_out + to * task.width)[i] =
          as<Floats>(task.states + from * task.width + i * 4);
    } else {
      const std::size_t piece = (i - state_pieces) * 8;
      *reinterpret_cast<Words*>(task.queries_out + to * task.query_width + piece) =
          as<Words>(task.queries + from * task.query_width + piece);
    }
  }
}

// Rounds rows; a thread takes eight features.
template <class Half>
TROUPE_KERNEL(threads)
round_rows_kernel(const float* states, const std::uint32_t* rows, std::uint32_t count, std::uint32_t width,
                  std::uint16_t* out) {
  const std::size_t pieces = width / 8;
  for (std::size_t n = first_element(); n < count * pieces; n += grid_stride()) {
    const float* const from = states + rows[n / pieces] * std::size_t{width} + n % pieces * 8;
    const Floats low = as<Floats>(from), high = as<Floats>(from + 4);
    float numbers[8];
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) numbers[i] = low.at[i], numbers[i + 4] = high.at[i];
    *reinterpret_cast<Words*>(out + n * 8) = narrow<Half>(numbers);
  }
}

TROUPE_KERNEL(threads)
clear_tokens_kernel(std::byte* const* addresses, const std::uint32_t* count, std::size_t vectors,
                    std::size_t head_bytes, std::size_t vector_bytes) {
  const std::size_t pieces = vector_bytes / 16, of_token = vectors * pieces;
  for (std::size_t n = first_element(); n < *count * of_token; n += grid_stride()) {
    std::byte* const vector = addresses[n / of_token] + n % of_token / pieces * head_bytes;
    reinterpret_cast<Words*>(vector)[n % pieces] = {};
  }
}

// Loads numbers i to i + 7 of a row.
template <class Format>
TROUPE_DEVICE void eight_of(const void* rows, std::size_t i, float (&numbers)[8]) {
  widen<Format>(as<Words>(static_cast<const std::uint16_t*>(rows) + i), numbers);
}
template <>
TROUPE_DEVICE void eight_of<float>(const void* rows, std::size_t i, float (&numbers)[8]) {
  const Floats low = as<Floats>(static_cast<const float*>(rows) + i),
               high = as<Floats>(static_cast<const float*>(rows) + i + 4);
  TROUPE_UNROLL
  for (unsigned k = 0; k < 4; ++k) numbers[k] = low.at[k], numbers[k + 4] = high.at[k];
}

// Computes logits. A warp reads its vocabulary row once for all the block's states.
template <class Format>
TROUPE_KERNEL(threads)
read_out_kernel(ReadoutTask task) {
  static_assert(warps == readout_block_rows);
  const ReadoutBlock block = task.blocks[block_x()];
  if (block.states == 0 || warp() >= block.rows) return;
  const std::size_t row = task.lists[block.row_begin + warp()] * std::size_t{task.width};
  const float* states[readout_block_states];
  float sums[readout_block_states] = {};
  TROUPE_UNROLL
  for (unsigned s = 0; s < readout_block_states; ++s)
    states[s] =
        task.states + task.lists[block.state_begin + (s < block.states ? s : 0)] * std::size_t{task.width};
  for (std::size_t i = lane() * 8; i < task.width; i += warp_threads * 8) {
    float weights[8];
    eight_of<Format>(task.output, row + i, weights);
    TROUPE_UNROLL
    for (unsigned s = 0; s < readout_block_states; ++s) {
      if (s >= block.states) break;
      const Floats low = as<Floats>(states[s] + i), high = as<Floats>(states[s] + i + 4);
      TROUPE_UNROLL
      for (unsigned k = 0; k < 4; ++k) sums[s] += weights[k] * low.at[k] + weights[k + 4] * high.at[k];
    }
  }
  TROUPE_UNROLL
  for (unsigned s = 0; s < readout_block_states; ++s) {
    const float sum = warp_sum(sums[s]);
    if (lane() == 0 && s < block.states) task.out[block.out + std::size_t{s} * block.stride + warp()] = sum;
  }
}

}  // namespace

void embed(HalfFormat half, const std::uint16_t* table, const std::uint32_t* tokens, std::uint32_t rows,
           std::uint32_t width, float* out, Stream& stream) {
  if (rows == 0) return;
  launch("embed", half == HalfFormat::bf16 ? embed_kernel<Bf16> : embed_kernel<F16>,
         {.blocks = blocks_for(std::size_t{rows} * width / 8), .threads = threads}, stream, table, tokens,
         rows, width, out);
}

void rms_norm_half(HalfFormat half, const float* in, const float* weight, float epsilon, std::uint32_t rows,
                   std::uint32_t width, std::uint16_t* out, Stream& stream) {
  if (rows == 0) return;
  launch("rms_norm_half", half == HalfFormat::bf16 ? rms_norm_kernel<Bf16> : rms_norm_kernel<F16>,
         {.blocks = rows, .threads = threads}, stream, in, weight, epsilon, width, out);
}

void rms_norm(const float* in, const float* weight, float epsilon, std::uint32_t rows, std::uint32_t width,
              float* out, Stream& stream) {
  if (rows == 0) return;
  launch("rms_norm", rms_norm_kernel<float>, {.blocks = rows, .threads = threads}, stream, in, weight,
         epsilon, width, out);
}

void swiglu_half(HalfFormat half, const std::uint16_t* gate_up, std::uint32_t rows, std::uint32_t width,
                 std::uint16_t* out, Stream& stream) {
  if (rows == 0) return;
  launch("swiglu_half", half == HalfFormat::bf16 ? swiglu_half_kernel<Bf16> : swiglu_half_kernel<F16>,
         {.blocks = blocks_for(std::size_t{rows} * width / 8), .threads = threads}, stream, gate_up, rows,
         width, out);
}

void make_heads(const KvLayout& layout, const HeadRows& task, Stream& stream) {
  if (task.rows == 0) return;
  const KvTokenOffsets kv{layout.keys(task.layer, 0), 2 * layout.head_bytes(), layout.head_bytes()};
  const std::size_t count = std::size_t{task.rows} * (2 * task.heads + 2 * layout.kv_heads);
  const bool alike = task.queries_as_keys;
  const auto kernel = layout.format == KvFormat::bf16  ? make_heads_kernel<Bf16, Bf16>
                      : layout.format == KvFormat::f32 ? make_heads_kernel<Split, Split>
                      : alike                          ? make_heads_kernel<F16, F16>
                                                       : make_heads_kernel<Bf16, F16>;
  launch("make_heads", kernel, {.blocks = blocks_of_warps(count), .threads = threads}, stream, task, kv,
         layout.kv_heads, layout.head_dim);
}

void gather_rows(const RowGather& task, Stream& stream) {
  if (task.count == 0) return;
  const std::size_t pieces = task.width / 4 + task.query_width / 8;
  launch("pick_rows", pick_rows_kernel, {.blocks = blocks_for(task.count * pieces), .threads = threads},
         stream, task);
}

void round_rows(HalfFormat half, const float* states, const std::uint32_t* rows, std::uint32_t count,
                std::uint32_t width, std::uint16_t* out, Stream& stream) {
  if (count == 0) return;
  launch("round_rows", half == HalfFormat::bf16 ? round_rows_kernel<Bf16> : round_rows_kernel<F16>,
         {.blocks = blocks_for(std::size_t{count} * width / 8), .threads = threads}, stream, states, rows,
         count, width, out);
}

void clear_tokens(const KvLayout& layout, std::byte* const* addresses, const std::uint32_t* count,
                  Stream& stream) {
  constexpr unsigned some_blocks = 64;  // only the device knows the count, which is mostly 0
  launch("clear_tokens", clear_tokens_kernel, {.blocks = some_blocks, .threads = threads}, stream, addresses,
         count, std::size_t{layout.layers} * layout.kv_heads * 2, layout.head_bytes(), layout.vector_bytes());
}

void read_out(HalfFormat half, const ReadoutTask& task, Stream& stream) {
  if (task.count == 0) return;
  launch("read_out", half == HalfFormat::bf16 ? read_out_kernel<Bf16> : read_out_kernel<F16>,
         {.blocks = task.count, .threads = threads}, stream, task);
}

void read_out_f32(const ReadoutTask& task, const float* output_f32, Stream& stream) {
  if (task.count == 0) return;
  ReadoutTask of_floats = task;
  of_floats.output = output_f32;
  launch("read_out", read_out_kernel<float>, {.blocks = task.count, .threads = threads}, stream, of_floats);
}

}  // namespace troupe::kernels::cuda
