#pragma once
// What tests ask of the emulated device, and do to it, beyond what a device offers.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda::emulator {

// A device of capability 80, 86 or 90 with that one's limits, which the emulator holds kernels to, and a few
// multiprocessors. DeviceError for others.
DeviceProperties profile(unsigned capability);
// The device from now on, for all threads; at first profile(90).
void emulate(const DeviceProperties& device);

// For a test that wants another device.
class Emulated {
 public:
  explicit Emulated(const DeviceProperties& device) : before_(device_properties(0)) { emulate(device); }
  ~Emulated() { emulate(before_); }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

 private:
  const DeviceProperties before_;
};

// Of the order in which warps run. Drawn for each process, part of what every KernelFault says, and given
// again to see the same order again: before the calling thread's first launch.
std::uint64_t schedule_seed();
void use_schedule_seed(std::uint64_t seed);

// Whether all of it lies in memory that one PageLock holds.
bool is_page_locked(const void* memory, std::size_t bytes);

// Of the commands of all streams, counted from now as they run, this one throws DeviceError in its waiter
// instead; the next is number 1. 0: none does. `lost`: and with it the device (device_lost.h).
void fail_command(std::uint64_t which, bool lost = false);

}  // namespace troupe::kernels::cuda::emulator
