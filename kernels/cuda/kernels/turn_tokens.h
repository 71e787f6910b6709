#pragma once
// Keys of single tokens at other positions, with their values, for one layer: what a pass sees of blocks that
// stand elsewhere than where they were made (kernels/operations/realign.h), cached or computed by the pass
// itself. They go to places of their own, which attention reads like any others. Memory-bound: a thread moves
// four bytes of either half of a key and of its value.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// Lists of which only the device knows how long they are. `heap` is where their numbers count from.
struct TurnedTokens {
  const std::uint32_t* lists =
      nullptr;  // how many; the first address, of two a token: from, to; the first distance
  const std::byte* heap = nullptr;
  const float* rotations = nullptr;  // as HeadRows has them (decoder_kernels.h)
  std::uint32_t layer = 0;
};

// Enqueues. Keys are of 16 bits, head_dim a multiple of 4.
void turn_tokens(const KvLayout& layout, const TurnedTokens& tokens, Stream& stream);

}  // namespace troupe::kernels::cuda
