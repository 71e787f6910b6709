#pragma once
// Allocates consecutive pages of device memory for keys and values that do not outlive a call.
#include <cstdint>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/decoder/search_progress.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels::cuda {

struct ScratchPages {
  DeviceMemory memory;
  PageRun pages;
  std::uint32_t count = 0;

  ScratchPages(const KvLayout& layout, std::uint32_t tokens);
  std::vector<std::byte*> all() const;
};

}  // namespace troupe::kernels::cuda
