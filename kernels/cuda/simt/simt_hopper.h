#pragma once
// Words of device code that only sm_90a has, after those of simt.h: what runs beside the threads that started
// it. Elsewhere they compile and trap, so that a kernel is written once; the host asks device_capability()
// before it launches one. A warpgroup is four warps from a multiple of four on.
//
//   Phases          mbarrier_init(at, arrivals), by one thread, which then comes to fence_async() and a
//                   barrier(). mbarrier_arrive(at); mbarrier_arrive_expecting(at, bytes) announces bytes of
//                   bulk copies too. A phase ends when all arrivals and bytes came; mbarrier_wait(at, parity)
//                   returns once phase 0 (parity 0), 1 (parity 1), 2 (parity 0), … has ended.
//   Bulk copies     copy_bulk(to, from, bytes, mbarrier): one thread, 16-byte aligned, multiples of 16.
//   Visibility      fence_async() by the thread that wrote shared memory, or whose copy_async landed, before
//                   others are told that bulk copies or products may read it.
//   Named barriers  barrier_sync<threads>(number) waits, barrier_arrive<threads>(number) goes on; whole
//                   warps, numbers from 1 to 15.
//   Products        multiply_add_group<Half, Rows>(d, a, b, accumulate), of a warpgroup: d = a*b, plus d if
//                   accumulate, a of 64x16 numbers in registers, b of 16xn in shared memory, n = 8 times d's
//                   length.
//                   Fragments are those of multiply_add<Half>, 16 rows a warp. group_fence() before products
//                   whose registers were touched; group_commit() closes a batch, group_wait<n>() waits for
//                   all but the last n. Until then d, a and the shared memory of b are left alone.
//                   hold_for(x), x never negative: compilers move a wait up over arithmetic that should go on
//                   beside the products; not over that which x comes from.
//   Registers       registers_take<n>(), registers_give<n>(): a warpgroup has n a thread from now on. In
//                   kernels declared with TROUPE_KERNEL_RESIDENT(threads, blocks a multiprocessor) only.
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda::simt {

inline constexpr unsigned group_warps = 4, group_threads = group_warps * warp_threads;

// What a row of B in shared memory runs along: keys are rows of depth (a row is one column of B), values are
// rows of columns.
enum class Rows { along_depth, along_columns };

// A matrix in shared memory as products read it: rows of 64 numbers, 128 bytes, eight to a pattern of 1024
// bytes that lies at a multiple of 1024; in row r of a pattern the 16-byte chunk c lies at place c ^ r. More
// rows follow, pattern after pattern. PTX ISA, "Matrix descriptor format".
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

// `beside`: from 64 columns to the next 64, where rows run along columns.
TROUPE_DEVICE GroupMatrix group_matrix(SharedAddress start, unsigned beside) {
  constexpr unsigned swizzled_128 = 1u << 30, next_pattern = 1024 / 16;
  return {beside / 16 << 16 | (start & 0x3ffff) / 16, swizzled_128 | next_pattern};
}
// The part that begins so many bytes after `matrix`: 32 for 16 of depth along rows, 1024 for eight rows.
TROUPE_DEVICE GroupMatrix part_of(GroupMatrix matrix, unsigned bytes) {
  return {matrix.low + bytes / 16, matrix.high};
}

}  // namespace troupe::kernels::cuda::simt
