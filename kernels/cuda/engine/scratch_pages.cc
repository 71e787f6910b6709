// Allocates pages in device memory for keys and values that are needed during one call only.
#include "kernels/cuda/engine/scratch_pages.h"

namespace troupe::kernels::cuda {
namespace {

constexpr std::size_t page_alignment = 64;

}  // namespace

ScratchPages::ScratchPages(const KvLayout& layout, std::uint32_t tokens)
    : count(static_cast<std::uint32_t>(layout.pages_for(tokens))) {
  pages.stride = (layout.page_bytes() + page_alignment - 1) / page_alignment * page_alignment;
  memory = DeviceMemory(count * pages.stride);
  pages.first = memory.data();
}

std::vector<std::byte*> ScratchPages::all() const {
  std::vector<std::byte*> all;
  for (std::uint32_t p = 0; p < count; ++p) all.push_back(pages.first + p * pages.stride);
  return all;
}

}  // namespace troupe::kernels::cuda
