#pragma once
// Rotates keys of single tokens to other positions and copies their values, for one layer. A pass
// needs this for blocks that it uses at another position than they were computed at
// (kernels/operations/realign.h), cached or computed by the pass itself. The results go to slots of
// their own, which attention reads like any others. It is memory-bound: a thread moves four bytes
// of each half of a key and of its value.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// Lists whose length only the device knows. Indices count from the start of `heap`.
struct RotatedTokens {
  // Three numbers: the count; the index of the first address (two per token: from, to); the index of the
  // first distance.
  const std::uint32_t* lists = nullptr;
  const std::byte* heap = nullptr;
  const float* rotations = nullptr;  // as in HeadRows (decoder_kernels.h)
  std::uint32_t layer = 0;
};

// Enqueues. Keys must have 16 bits and head_dim must be a multiple of 4.
void rotate_tokens(const KvLayout& layout, const RotatedTokens& tokens, Stream& stream);

}  // namespace troupe::kernels::cuda
