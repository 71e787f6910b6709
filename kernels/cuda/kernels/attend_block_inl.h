#pragma once
// What blocks of both attention kernels do before and after their key tiles: where their vectors lie, what
// rows see, partial results. Device code.
#include "kernels/cuda/kernels/attend_tile_inl.h"
#include "kernels/cuda/kernels/attend_versions.h"

namespace troupe::kernels::cuda {
namespace {

// A partial result: per vector its sum of weighted values, largest score and total weight.
template <unsigned dim>
constexpr unsigned partial_stride = dim + 4;

// The first number of vector `vector` of an item, of queries or outputs.
template <unsigned dim, class Item>
TROUPE_DEVICE std::size_t vector_at(const Item& item, const AttendLayer& layer, std::size_t stride,
                                    unsigned kv_head, unsigned vector) {
  const unsigned number = item.vector_begin + vector;
  return (item.row_begin + number / layer.heads) * stride +
         std::size_t{kv_head * layer.heads + number % layer.heads} * dim;
}

TROUPE_DEVICE Sight sight_from(const AttendPass& pass, const AttendItem& item, unsigned heads,
                               unsigned vector) {
  if (vector >= item.vectors) return {0, 0};
  const unsigned row = item.row_begin + (item.vector_begin + vector) / heads;
  return {item.context_tokens + pass.visible_begin[row], item.context_tokens + pass.visible_end[row]};
}

template <unsigned dim, unsigned fragments>
TROUPE_DEVICE void clear(Running<dim, fragments>& running) {
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

// Two numbers of the output.
TROUPE_DEVICE std::uint32_t pack_out(const AttendLayer& layer, float low, float high) {
  return layer.out_format == HalfFormat::f16 ? pack<F16>(low, high) : pack<Bf16>(low, high);
}

TROUPE_DEVICE float sum_of_four_lanes(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

template <class B, unsigned dim, unsigned fragments>
TROUPE_DEVICE void write_partial(const AttendItem& item, const AttendPass& pass, unsigned kv_heads,
                                 unsigned kv_head, const Running<dim, fragments>& running) {
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

}  // namespace
}  // namespace troupe::kernels::cuda
