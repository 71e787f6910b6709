#pragma once
// Emulates a GPU on the CPU, for tests. It runs the blocks of a launch one after another, and the
// threads of a block as fibers that switch where they synchronize. It detects errors that a GPU
// hides by luck. Warps run in a changing order between barriers; shared memory starts as NaN; a
// copy's destination is NaN from its issue until its wait; copies may read only device memory; a
// barrier that not all threads reach is a fault. It is not a model of time.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda::emulator {

// An error of device code. what() reads "<kernel>, block (x, y), thread t: <what>".
struct KernelFault : DeviceError {
  using DeviceError::DeviceError;
};
struct DivergenceFault : KernelFault {  // a barrier or warp operation that not all threads reach
  using KernelFault::KernelFault;
};
struct BoundsFault : KernelFault {  // an access outside shared memory or device memory
  using KernelFault::KernelFault;
};
struct AlignmentFault : KernelFault {
  using KernelFault::KernelFault;
};

// Counts of what device code did since the program began, for tests that a kernel avoids some
// operations.
struct Counts {
  std::uint64_t launches = 0, blocks = 0, barriers = 0;
  std::uint64_t multiply_adds = 0;  // warp-wide, m16n8k16
  std::uint64_t products = 0;       // by warpgroups, m64nNk16
  std::uint64_t matrix_loads = 0;   // warp-wide, 8x8
  // Additional passes over the banks of shared memory that matrix loads needed.
  std::uint64_t bank_conflicts = 0;
  std::uint64_t copies = 0;  // asynchronous, per thread
};
Counts counts();  // for the calling thread

// The indices of the running thread in its launch.
struct ThreadIndex {
  unsigned thread = 0, block_x = 0, block_y = 0, blocks_x = 1, block_threads = 1;
};
const ThreadIndex& place();

// A warp operation: run(operands) gets the operand of each of the 32 lanes.
struct WarpOperation {
  const char* name;
  void (*run)(void* const* operands);
};
// Returns after all lanes of the warp arrived with the same operation and it ran.
void sync_warp(const WarpOperation& operation, void* operands);
// Returns after all threads of the block arrived: whether any of them passed true.
bool sync_block(bool value);

// Returns `bytes` of the block's shared memory at an address; throws BoundsFault if they are
// outside, AlignmentFault if misaligned.
std::byte* shared_memory(std::uint32_t address, std::size_t bytes, std::size_t alignment);
// Does the same for the running thread, which may write there. The asynchronous proxy sees the writes
// after the thread's fence (emulator_async.h).
std::byte* shared_element(std::uint32_t address, std::size_t bytes, std::size_t alignment);
// Returns the address of the shared variable identified by `key`; the same for all threads of the block.
std::uint32_t shared_variable(const void* key, std::size_t bytes);
// Returns the address of a byte of the launch's dynamic shared memory; `bytes` from there must be inside.
std::uint32_t dynamic_shared(std::size_t offset, std::size_t bytes);

void copy_async(std::uint32_t to, const void* from, std::size_t bytes, bool present);
void copy_async_commit();
void copy_async_wait(unsigned groups_left);

void count_multiply_add();
void count_matrix_load(const std::uint32_t (&rows)[32]);

// Returns whether all of it is in one allocation of device memory.
bool is_device_memory(const void* memory, std::size_t bytes);

struct Grid {
  const char* kernel = "";
  unsigned blocks_x = 1, blocks_y = 1, threads = 32;
  std::size_t shared_bytes = 0;
};
// Runs a launch now, on the calling thread; `body` is the kernel with its arguments. Throws the first
// fault.
void run(const Grid& grid, const std::function<void()>& body);
// Runs `command` when a caller waits for the stream.
void enqueue(Stream& stream, std::function<void()> command);

}  // namespace troupe::kernels::cuda::emulator
