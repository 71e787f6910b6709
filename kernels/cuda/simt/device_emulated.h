#pragma once
// Declares what tests can query and control on the emulated device, beyond device.h.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda::emulator {

// Returns a device of capability 80, 86 or 90 with that capability's limits, which the emulator
// enforces, and a few multiprocessors. Throws DeviceError for other capabilities.
DeviceProperties profile(unsigned capability);
// Sets the emulated device for all threads; the default is profile(90).
void emulate(const DeviceProperties& device);

// Emulates another device in a test's scope.
class Emulated {
 public:
  explicit Emulated(const DeviceProperties& device) : before_(device_properties(0)) { emulate(device); }
  ~Emulated() { emulate(before_); }
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

 private:
  const DeviceProperties before_;
};

// Seed of the order in which warps run. It is drawn per process and part of every KernelFault's
// text. The same seed gives the same order; set it before the calling thread's first launch.
std::uint64_t schedule_seed();
void use_schedule_seed(std::uint64_t seed);

// Returns whether all of it is in memory held by one PageLock.
bool is_page_locked(const void* memory, std::size_t bytes);

// Makes one command fail: counts the commands of all streams as they run, starting now with number
// 1, and throws DeviceError in the waiter of command `which`. 0 = none. `lost`: the device is lost
// as well (device_lost.h).
void fail_command(std::uint64_t which, bool lost = false);

}  // namespace troupe::kernels::cuda::emulator
