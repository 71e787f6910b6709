#pragma once
// Defines the primitives of device code. A kernel file (.cu) is compiled twice. nvcc compiles it
// for GPUs, where each primitive is an intrinsic or one PTX instruction. The C++ compiler compiles
// it for the emulator (TROUPE_EMULATED), where the threads of a block are fibers on the CPU, so
// that every build tests every kernel against its reference. Device code uses only these
// primitives, no CUDA built-ins. The emulator is stricter than a GPU: shared memory starts as NaN,
// an asynchronous copy lands only at its wait, and a barrier or warp operation that not all threads
// reach is a fault with a name (emulator.h).
//
//  Indices         thread_x() block_x() block_y() blocks_x() block_threads() lane() warp()
//  Synchronizing   barrier()  barrier_or(bool)  warp_sync()
//                  shuffle(v, lane)  shuffle_xor(v, mask)  any(bool)  all(bool)  ballot(bool)
//                  All threads of the block or all lanes of the warp must take part.
//  Shared memory   TROUPE_SHARED(T, name, count) declares Shared<T> name.
//                  dynamic_shared<T>(offset_bytes, count): byte 0 is aligned to 1024.
//                  Shared<T>: s[i], s.address(i). Copies and matrix loads take a SharedAddress, in bytes.
//  Copies          copy_async<bytes>(to, from, present): 8 or 16 bytes, aligned; zeros where !present.
//                  copy_async_commit() closes a group; copy_async_wait<n>() waits for all but the last n
//                  groups of this thread. Other threads see the data after a barrier.
//  Tensor cores    load_matrices(r, row_address) is ldmatrix.x4; load_matrices_transposed is its .trans form.
//                  multiply_add<Half>(d, a, b0, b1) is mma.sync.m16n8k16: d += a*b in float32.
//  Numbers         Bf16 and F16 name a 16-bit format: pack<Half>(low, high), low_of<Half>(bits),
//                  high_of<Half>(bits).
//                  exp2_fast, rsqrt_fast, exp_fast, reciprocal_fast, root; multiply_add(a, b, c) rounds once.
//                  log_of(double), bits_of(float or double), count_bits(u32).
//  Launching       launch("name", kernel, {.blocks=…, .threads=…, .shared_bytes=…}, stream,
//                  arguments…); arguments are copied. A kernel reads `TROUPE_KERNEL(threads) name(…) {`,
//                  where threads is the maximum it is launched with. TROUPE_KERNEL_RESIDENT(threads, blocks)
//                  limits registers so that as many blocks fit on a multiprocessor.
//
// simt_hopper.h has the primitives that only sm_90a has.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda::simt {

inline constexpr unsigned warp_threads = 32;

// A byte address in a block's shared memory.
using SharedAddress = std::uint32_t;

struct LaunchShape {
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 32;  // a multiple of 32, at most 1024
  std::size_t shared_bytes = 0;
};

struct Bf16 {};
struct F16 {};
// A number as two F16: the rounded value and the remainder.
struct Split {};

}  // namespace troupe::kernels::cuda::simt

#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/simt_emulated_inl.h"
#else
#include "kernels/cuda/simt/simt_gpu_inl.h"
#endif
