#pragma once
// Implements the primitives of simt_hopper.h on the emulator (emulator_async.h).
#include "kernels/cuda/simt/emulator_async.h"

namespace troupe::kernels::cuda::simt {

inline void mbarrier_init(SharedAddress at, unsigned arrivals) { emulator::mbarrier_init(at, arrivals); }
inline void mbarrier_arrive(SharedAddress at) { emulator::mbarrier_arrive(at, 0); }
inline void mbarrier_arrive_expecting(SharedAddress at, unsigned bytes) {
  emulator::mbarrier_arrive(at, bytes);
}
inline void mbarrier_wait(SharedAddress at, unsigned parity) { emulator::mbarrier_wait(at, parity); }
inline void copy_bulk(SharedAddress to, const void* from, unsigned bytes, SharedAddress mbarrier) {
  emulator::copy_bulk(to, from, bytes, mbarrier);
}
inline void fence_async() { emulator::fence_async(); }

// Arrives for a whole warp.
template <unsigned threads, bool wait>
void arrive_at_barrier(unsigned number) {
  static constexpr emulator::WarpOperation operation{"named barrier", [](void* const*) {}};
  emulator::sync_warp(operation, nullptr);
  emulator::sync_named(number, threads, wait);
}
template <unsigned threads>
void barrier_sync(unsigned number) {
  arrive_at_barrier<threads, true>(number);
}
template <unsigned threads>
void barrier_arrive(unsigned number) {
  arrive_at_barrier<threads, false>(number);
}

inline void group_fence() {
  static constexpr emulator::WarpOperation operation{"group_fence",
                                                     [](void* const*) { emulator::group_fence(); }};
  emulator::sync_group(operation, nullptr);
}
inline void group_commit() {
  static constexpr emulator::WarpOperation operation{"group_commit",
                                                     [](void* const*) { emulator::group_commit(); }};
  emulator::sync_group(operation, nullptr);
}
template <unsigned left>
void group_wait() {
  static constexpr emulator::WarpOperation operation{"group_wait",
                                                     [](void* const*) { emulator::group_wait(left); }};
  emulator::sync_group(operation, nullptr);
}

template <class Half, Rows rows, unsigned tiles>
void multiply_add_group(float (&d)[tiles][4], const std::uint32_t (&a)[4], GroupMatrix b, bool accumulate) {
  static constexpr emulator::WarpOperation operation{
      "multiply_add_group", [](void* const* parts) {
        emulator::start_product({8 * tiles, rows == Rows::along_columns, low_of<Half>}, parts);
      }};
  emulator::ProductPart part{d[0], a, std::uint64_t{b.high} << 32 | b.low, accumulate};
  emulator::sync_group(operation, &part);
}

inline void hold_for(float) {}

template <unsigned registers>
void resize_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  static constexpr emulator::WarpOperation operation{"a change of registers", [](void* const*) {}};
  emulator::sync_group(operation, nullptr);
}
template <unsigned registers>
void registers_take() {
  resize_registers<registers>();
}
template <unsigned registers>
void registers_give() {
  resize_registers<registers>();
}

}  // namespace troupe::kernels::cuda::simt
