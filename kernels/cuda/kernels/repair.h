#pragma once
// Kernels for plans with a repair (base/repair.h), for the keys and values of one layer. One
// measures how far tokens' own keys and values are from those of their blocks. The other writes the
// blocks' keys and values to the slots of tokens that have ended, rotated, and corrected by the
// mean difference of chosen tokens. Both are memory-bound: a thread block per item and head reads
// each key and value once; a mean is read by each item that it corrects. Functions only enqueue;
// pointers are device addresses.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// A token of a repaired segment.
struct RepairToken {
  const std::byte* block = nullptr;  // its address in its block
  std::byte* own = nullptr;          // its slot in the pass
  std::int32_t rotation = 0;         // rotation of the block's key to the token's position
  std::uint32_t position = 0;        // its position in the prompt
};

// Tokens to fill and, if there are any, the chosen tokens whose mean difference from their blocks
// corrects them. Both are ranges of a list of token indices.
struct FillItem {
  std::uint32_t chosen_begin = 0, chosen_end = 0;
  std::uint32_t fill_begin = 0, fill_end = 0;
};
inline constexpr std::uint32_t fill_tokens_max = 64;  // per item: more would make a thread block run long

struct RepairLayer {
  const RepairToken* tokens = nullptr;
  const float* rotations = nullptr;  // as in HeadRows (decoder_kernels.h)
  std::uint32_t layer = 0;
};

// Writes lengths[i]: the norm of the difference between token i's own keys and values and its
// block's, over all heads.
void compare_tokens(const KvLayout& layout, const RepairLayer& task, std::uint32_t count, float* lengths,
                    Stream& stream);

void fill_tokens(const KvLayout& layout, const RepairLayer& task, const FillItem* items, std::uint32_t count,
                 const std::uint32_t* numbers, Stream& stream);

}  // namespace troupe::kernels::cuda
