// Gives a pass the pages of its blocks directly in the pool's memory: verifies those that need it
// and takes checksums of those that the pass wrote.
#include "actors/inference/pass_pages_port.h"

#include "runtime/profiling/cpu_components.h"

namespace troupe::actors {

std::size_t ArenaPages::begin(std::span<PassBlocks> requests, std::uint32_t, DeviceUse&) {
  const CpuScope checksums(CpuComponent::checksums);
  for (PassBlocks& blocks : requests) {
    for (PassBlock& block : blocks) {
      const BatchSegmentKv& kv = *block.kv;
      const bool read = kv.grant == Grant::read;
      block.corrupt =
          read && !kv.in_flight && (verify_ || kv.check) && checksum_pages(arena_, kv.pages) != kv.checksum;
      if (block.corrupt) continue;
      block.pages.reserve(kv.pages.size());
      for (const std::uint32_t page : kv.pages) block.pages.push_back(arena_.page(page));
    }
  }
  return requests.size();
}

void ArenaPages::keep(std::span<PassBlocks> requests, std::uint32_t, DeviceUse&) {
  const CpuScope checksums(CpuComponent::checksums);
  for (PassBlocks& blocks : requests)
    for (PassBlock& block : blocks)
      if (block.kv->grant == Grant::write) block.checksum = checksum_pages(arena_, block.kv->pages);
}

}  // namespace troupe::actors
