#pragma once
// What tests ask of the emulated device, and do to it, beyond what a device offers.
#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda::emulator {

// Whether all of it lies in memory that one PageLock holds.
bool is_page_locked(const void* memory, std::size_t bytes);

// Of the commands of all streams, counted from now as they run, this one throws DeviceError in its waiter
// instead; the next is number 1. 0: none does.
void fail_command(std::uint64_t which);

}  // namespace troupe::kernels::cuda::emulator
