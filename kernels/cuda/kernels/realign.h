#pragma once
// Realignment (kernels/operations/realign.h) on the device: many pages of many blocks in one launch, each
// turned by its own distance. Memory-bound: a thread moves 16 bytes of either half of a key, and as much of
// its value where pages move, so that up to four loads are in flight before the first is used; 32 bytes a
// key's piece and way.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// One page: turned in place where from == to, else made at `to`, whole. Device pointers, 16-byte aligned. No
// `to` overlaps another page of the launch.
struct RealignPage {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint32_t tokens = 0;   // filled, up to page_tokens
  std::int32_t distance = 0;  // new position minus old
};

// Empty if there is a kernel for these pages, else what is wrong and what was expected.
std::string realign_fault(const KvLayout& layout);

// Enqueues. `pages`: count of them, in device memory. `rotations`: as HeadRows has them (decoder_kernels.h),
// for more positions than any distance goes either way.
void realign(const KvLayout& layout, const RealignPage* pages, std::uint32_t count, const float* rotations,
             Stream& stream);

}  // namespace troupe::kernels::cuda
