#pragma once
// Computes the attention that single keys receive: their softmax shares, summed over rows and
// heads, by which a repair weighs tokens (RcLLM §III-C). It recomputes the scores; `attend`
// provides the statistics that turn them into shares (AttendLayer::stats). Here a block keeps a
// tile of 64 keys of one key-value head in shared memory and walks the query vectors, so that every
// sum has one owner and one order. All devices use mma.sync, because only the first layer needs it.
#include <cstdint>

#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {

// Keys [first, first + count) of the group whose keys begin at `key_begin`, and the rows that
// attend to them.
struct MassTile {
  std::uint32_t row_begin = 0, row_end = 0;  // query rows
  std::uint32_t key_begin = 0, context_tokens = 0;
  std::uint32_t first = 0, count = 0;  // count: at most attend_key_tile
};

// Enqueues. Writes mass[(tile * kv_heads + kv_head) * attend_key_tile + key]. Ignores the layer's
// `out`.
void attend_mass(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer,
                 const MassTile* tiles, std::uint32_t count, float* mass, Stream& stream);

}  // namespace troupe::kernels::cuda
