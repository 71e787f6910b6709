#pragma once
// Device code of both attention kernels before and after their key tiles: where vectors are stored,
// what rows see, partial results.
#include "kernels/cuda/kernels/attend_score_policy_inl.h"
#include "kernels/cuda/kernels/attend_versions.h"

namespace troupe::kernels::cuda {
namespace {

// Numbers of a partial result per vector: the sum of weighted values, the largest score and the
// total weight.
template <unsigned dim>
constexpr unsigned partial_stride = dim + 4;

// Returns the index of the first number of an item's vector, in queries or outputs.
template <unsigned dim, class Item>
TROUPE_DEVICE std::size_t vector_at(const Item& item, const AttendLayer& layer, std::size_t stride,
                                    unsigned kv_head, unsigned vector) {
  const unsigned number = item.vector_begin + vector;
  return (item.row_begin + number / layer.heads) * stride +
         std::size_t{kv_head * layer.heads + number % layer.heads} * dim;
}

TROUPE_DEVICE VisibleRange visible_range_of(const AttendPass& pass, const AttendItem& item, unsigned heads,
                                            unsigned vector) {
  if (vector >= item.vectors) return {0, 0};
  const unsigned row = item.row_begin + (item.vector_begin + vector) / heads;
  return {item.context_tokens + pass.visible_begin[row], item.context_tokens + pass.visible_end[row]};
}

template <unsigned dim, unsigned fragments>
TROUPE_DEVICE void clear(RunningSums<dim, fragments>& running) {
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) {
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) running.out[f][j][i] = 0;
    TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      running.largest[f][half] = minus_infinity;
      running.total[f][half] = 0;
    }
  }
}

// Packs two numbers of the output.
TROUPE_DEVICE std::uint32_t pack_out(const AttendLayer& layer, float low, float high) {
  return layer.out_format == HalfFormat::f16 ? pack<F16>(low, high) : pack<Bf16>(low, high);
}

TROUPE_DEVICE float sum_of_four_lanes(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

// Writes the statistics from which attend_mass.h recomputes a row's weights: its largest score, and
// the factor that turns powers of two into shares.
template <class Item>
TROUPE_DEVICE void write_stats(const Item& item, const AttendLayer& layer, unsigned kv_heads,
                               unsigned kv_head, unsigned vector, float largest, float factor) {
  if (layer.stats == nullptr) return;
  float* const to = layer.stats + 2 * vector_at<1>(item, layer, kv_heads * layer.heads, kv_head, vector);
  to[0] = largest, to[1] = factor;
}

// Writes numbers 2 * n and 2 * n + 1 of a vector's output, which begins at number `at`.
TROUPE_DEVICE void write_two(const AttendLayer& layer, std::size_t at, unsigned n, float low, float high) {
  if (layer.out_f32 != nullptr)
    layer.out_f32[at + 2 * n] = low, layer.out_f32[at + 2 * n + 1] = high;
  else
    reinterpret_cast<std::uint32_t*>(layer.out + at)[n] = pack_out(layer, low, high);
}

template <class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_partial(const AttendItem& item, const AttendPass& pass, unsigned kv_heads,
                                 unsigned kv_head, const RunningSums<dim, fragments>& running) {
  const std::size_t first = (std::size_t{item.partial} * kv_heads + kv_head) * B::vectors;
  TROUPE_UNROLL
  for (unsigned f = 0; f < fragments; ++f) TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const float total = sum_of_four_lanes(running.total[f][half]);
    const unsigned vector = warp() * B::warp_vectors + 16 * f + 8 * half + lane() / 4;
    if (vector >= item.vectors) continue;
    float* const to = pass.partials + (first + vector) * partial_stride<dim>;
    TROUPE_UNROLL
    for (unsigned j = 0; j < dim / 8; ++j) TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i) to[8 * j + 2 * (lane() % 4) + i] = running.out[f][j][2 * half + i];
    if (lane() % 4 == 0) to[dim] = running.largest[f][half], to[dim + 1] = total;
  }
}

struct alignas(16) Piece {
  std::uint32_t words[4];
};

template <class B>
TROUPE_DEVICE void store_visible_ranges(const AttendPass& pass, const AttendItem& item, unsigned heads) {
  static_assert(B::vectors <= B::threads);
  if (thread_x() >= B::vectors) return;
  dynamic_shared<VisibleRange>(B::sight_start, B::vectors)[thread_x()] =
      visible_range_of(pass, item, heads, thread_x());
}

template <class B, unsigned dim>
TROUPE_DEVICE void stage_queries(const AttendItem& item, const AttendLayer& layer, unsigned kv_head) {
  const auto queries = dynamic_shared<std::byte>(0, B::vectors * B::vector_bytes);
  const unsigned piece = thread_x() % B::pieces;
  for (unsigned vector = thread_x() / B::pieces; vector < B::vectors; vector += B::rows_at_once) {
    const bool present = vector < item.vectors;
    const std::size_t at =
        vector_at<dim>(item, layer, layer.query_stride, kv_head, present ? vector : 0) + piece * 8;
    copy_async<16>(queries.address(B::place(vector, piece)), layer.queries + at, present);
  }
}

// Converts queries to the keys' format, since products need both in one format. Each thread
// converts what it copied.
template <class B, class Half>
TROUPE_DEVICE void convert_queries() {
  const auto queries = dynamic_shared<std::uint32_t>(0, B::vectors * B::vector_bytes / 4);
  const unsigned piece = thread_x() % B::pieces;
  for (unsigned vector = thread_x() / B::pieces; vector < B::vectors; vector += B::rows_at_once)
    for (unsigned i = 0; i < 4; ++i) {
      std::uint32_t& two = queries[B::place(vector, piece) / 4 + i];
      two = pack<Half>(low_of<Bf16>(two), high_of<Bf16>(two));
    }
}
template <class B, class Format>
TROUPE_DEVICE void to_key_format(const AttendLayer&, Format) {}
template <class B>
TROUPE_DEVICE void to_key_format(const AttendLayer& layer, F16) {
  if (!layer.queries_as_keys) convert_queries<B, F16>();
}

}  // namespace
}  // namespace troupe::kernels::cuda
