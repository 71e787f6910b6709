#pragma once
// Realigns keys (kernels/operations/realign.h) on the device: many pages of many blocks in one
// launch, each rotated by its own distance. It is memory-bound. A thread moves 16 bytes of each
// half of a key, and as much of its value if pages move, so that up to four loads are in flight
// before the first is used: 32 bytes per piece and direction.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/device/device.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

// A page, rotated in place if from == to, otherwise written whole to `to`. Device pointers,
// 16-byte aligned. No `to` may overlap another page of the launch.
struct RealignPage {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint32_t tokens = 0;   // filled tokens, up to page_tokens
  std::int32_t distance = 0;  // new position minus old
};

// Returns an empty string if there is a kernel for these pages, else what is wrong and what was
// expected.
std::string realign_fault(const KvLayout& layout);

// Enqueues. `pages`: `count` entries in device memory. `rotations`: as in HeadRows
// (decoder_kernels.h), for more positions than any distance in either direction.
void realign(const KvLayout& layout, const RealignPage* pages, std::uint32_t count, const float* rotations,
             Stream& stream);

}  // namespace troupe::kernels::cuda
