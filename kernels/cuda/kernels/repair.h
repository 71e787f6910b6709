#pragma once
// Keys and values of plans with a repair on the device (base/repair.h), of one layer: how far tokens' own are
// from those of their blocks, and the blocks' in the places of tokens that have ended, turned, and corrected
// by the mean difference of others. Bound by memory: each key and value is read once, by a block of threads
// for each item and head; of a mean by each of the items that are corrected by it. Functions only enqueue;
// pointers are to device memory.
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// A token of a place.
struct RepairToken {
  const std::byte* block = nullptr;  // where its block has it
  std::byte* own = nullptr;          // its place in the pass
  std::int32_t turn = 0;             // by which the block's key turns to it
  std::uint32_t position = 0;        // where it stands
};

// Tokens that are filled in and, where there are any, those whose mean difference from their blocks corrects
// them. Both are ranges of a list of tokens' numbers.
struct FillItem {
  std::uint32_t chosen_begin = 0, chosen_end = 0;
  std::uint32_t fill_begin = 0, fill_end = 0;
};
inline constexpr std::uint32_t fill_tokens_max = 64;  // of an item: more make a block of threads long

struct RepairLayer {
  const RepairToken* tokens = nullptr;
  const float* rotations = nullptr;  // as HeadRows has them (decoder_kernels.h)
  std::uint32_t layer = 0;
};

// lengths[i]: the length of the difference of token i's own keys and values from its block's, of all heads
// side by side.
void compare_tokens(const KvLayout& layout, const RepairLayer& task, std::uint32_t count, float* lengths,
                    Stream& stream);

void fill_tokens(const KvLayout& layout, const RepairLayer& task, const FillItem* items, std::uint32_t count,
                 const std::uint32_t* numbers, Stream& stream);

}  // namespace troupe::kernels::cuda
