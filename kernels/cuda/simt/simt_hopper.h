#pragma once
// Defines the primitives that only sm_90a has, in addition to simt.h: operations that run beside
// the threads that started them. On other devices they compile and trap, so that a kernel is
// written once; the host checks device_capability() before it launches one. A warpgroup is four
// warps; its first warp's index is a multiple of four.
//
//  Phases          mbarrier_init(at, arrivals), by one thread, which then calls fence_async() and barrier().
//                  mbarrier_arrive(at); mbarrier_arrive_expecting(at, bytes) also announces bytes of bulk
//                  copies. A phase ends after all arrivals and bytes; mbarrier_wait(at, parity) returns
//                  once phase 0 (parity 0), 1 (parity 1), 2 (parity 0), … has ended.
//  Bulk copies     copy_bulk(to, from, bytes, mbarrier): by one thread, 16-byte aligned, multiples of 16.
//  Visibility      fence_async() by the thread that wrote shared memory, or whose copy_async landed, before
//                  it signals others that bulk copies or products may read it.
//  Named barriers  barrier_sync<threads>(number) waits, barrier_arrive<threads>(number) goes on; whole
//                  warps, numbers from 1 to 15.
//  Products        multiply_add_group<Half, Rows>(d, a, b, accumulate), by a warpgroup: d = a*b, plus d if
//                  accumulate; a has 64x16 numbers in registers, b 16xn in shared memory, n = 8 times d's
//                  length. Fragments are those of multiply_add<Half>, 16 rows per warp.
//                  group_fence() precedes products whose registers were accessed. group_commit() closes a
//                  batch; group_wait<n>() waits for all but the last n. Until then d, a and the shared
//                  memory of b must not be accessed.
//                  hold_for(x), x never negative: compilers move a wait before arithmetic that should run
//                  beside the products, but not before the arithmetic that computes x.
//  Registers       registers_take<n>(), registers_give<n>(): the warpgroup has n registers per thread from
//                  now on. Only in kernels declared with TROUPE_KERNEL_RESIDENT(threads, blocks).
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda::simt {

inline constexpr unsigned group_warps = 4, group_threads = group_warps * warp_threads;

// Direction of a row of B in shared memory: keys are rows along depth (a row is one column of B),
// values are rows along columns.
enum class Rows { along_depth, along_columns };

// A descriptor of a matrix in shared memory, as products read it: rows of 64 numbers, 128 bytes.
// Eight rows form a pattern of 1024 bytes, aligned to 1024; in row r of a pattern the 16-byte chunk
// c is stored at index c ^ r. Further rows follow, pattern after pattern. PTX ISA, "Matrix
// descriptor format".
struct GroupMatrix {
  std::uint32_t low, high;
};

}  // namespace troupe::kernels::cuda::simt

#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/simt_hopper_emulated_inl.h"
#else
#include "kernels/cuda/simt/simt_hopper_gpu_inl.h"
#endif

namespace troupe::kernels::cuda::simt {

// Describes a matrix. `beside`: bytes from 64 columns to the next 64, if rows run along columns.
TROUPE_DEVICE GroupMatrix group_matrix(SharedAddress start, unsigned beside) {
  constexpr unsigned swizzled_128 = 1u << 30, next_pattern = 1024 / 16;
  return {beside / 16 << 16 | (start & 0x3ffff) / 16, swizzled_128 | next_pattern};
}
// Returns the part that begins `bytes` after `matrix`: 32 for 16 of depth along rows, 1024 for
// eight rows.
TROUPE_DEVICE GroupMatrix part_of(GroupMatrix matrix, unsigned bytes) {
  return {matrix.low + bytes / 16, matrix.high};
}

}  // namespace troupe::kernels::cuda::simt
