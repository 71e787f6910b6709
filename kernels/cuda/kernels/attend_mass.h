#pragma once
// The attention that single keys receive: the shares of the softmax that rows pay to them, summed over rows
// and heads (what a repair weighs tokens by, RcLLM §III-C). It takes the scores a second time, and from
// `attend` (AttendLayer::stats) what their shares are of. Here keys stay and queries pass by: a block keeps a
// tile of 64 keys of one key-value head in shared memory and walks the query vectors, so that every sum has
// one owner and one order. mma.sync on every device: the first layer alone asks for it.
#include <cstdint>

#include "kernels/cuda/kernels/attend.h"

namespace troupe::kernels::cuda {

// Keys [first, first + count) of the group whose keys begin at `key_begin`, and the rows that pay.
struct MassTile {
  std::uint32_t row_begin = 0, row_end = 0;  // query rows
  std::uint32_t key_begin = 0, context_tokens = 0;
  std::uint32_t first = 0, count = 0;  // at most attend_key_tile
};

// mass[(tile * kv_heads + kv_head) * attend_key_tile + key]. Of the layer `out` is not looked at. Enqueues.
void attend_mass(const KvLayout& layout, const AttendPass& pass, const AttendLayer& layer,
                 const MassTile* tiles, std::uint32_t count, float* mass, Stream& stream);

}  // namespace troupe::kernels::cuda
