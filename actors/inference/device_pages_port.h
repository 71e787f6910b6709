#pragma once
// Pages of passes on a device: copies of the pool's blocks in device memory. device_tier.h decides
// which blocks have copies; this class copies them to the device before a pass and back after it.
// All executor slots share them. Each slot copies in a stream of its own, so that its copies run
// beside the passes of others. A block that two slots want is copied once.
//
// Nothing deadlocks: a slot that waits for free pages holds no pins, and a slot that waits for
// another's copy has finished its own copies.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/inference/device_tier.h"
#include "actors/inference/pass_pages_port.h"
#include "kernels/cuda/device/device_arena.h"

namespace troupe::actors {

class DevicePages final : public PassPages {
 public:
  // Uses `pages` pages of the device, each as large as a page of the arena. The arena's memory is
  // page-locked for the object's lifetime. Throws kernels::cuda::DeviceError.
  DevicePages(PageArena& arena, int device, std::uint32_t pages, std::uint32_t slots, bool verify);

  std::size_t begin(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) override;
  void keep(std::span<PassBlocks> requests, std::uint32_t slot, DeviceUse& use) override;
  void end(std::uint32_t slot, bool failed) noexcept override;

 private:
  using Pin = std::vector<DeviceTier::Pin>;
  struct SlotState {
    explicit SlotState(std::size_t page_bytes) : copies(page_bytes, 1) {}
    kernels::cuda::PageCopies copies;
    std::vector<Pin> pinned;  // blocks of the running pass: by request and block
  };

  std::size_t admit(std::span<PassBlocks> requests, SlotState& slot, DeviceUse& use);
  DeviceTier::PinResult pin(const PassBlocks& blocks, SlotState& slot);
  void copy_in(std::span<PassBlocks> requests, SlotState& slot, DeviceUse& use);
  bool is_sound(const PassBlock& block) const;
  void await_pages(std::span<PassBlocks> requests, const SlotState& slot);
  void add_copies(const PassBlock& block, const DeviceTier::Block& to,
                  std::vector<kernels::cuda::PageCopy>& copies) const;

  PageArena& arena_;
  const int device_;
  const bool verify_;
  const std::size_t page_bytes_;
  const kernels::cuda::PageLock lock_;
  const kernels::cuda::DeviceArena memory_;
  std::vector<std::unique_ptr<SlotState>> slots_;
  // Held by the slot that waits for free pages; others queue behind it, so that it gets them.
  std::mutex admission_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a block was filled or failed, or pins ended
  DeviceTier tier_;                  // guarded by mutex_, as are its blocks except for their page numbers
};

}  // namespace troupe::actors
