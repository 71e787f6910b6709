#pragma once
// The words in which device code is written. A kernel file (.cu) is compiled twice: by nvcc for GPUs, where
// each word is an intrinsic or one PTX instruction, and by the C++ compiler for the emulator
// (TROUPE_EMULATED), where threads of a block are fibers on the CPU, so that every kernel is tested against
// its reference wherever the code builds. Device code uses these words only, no CUDA built-ins. The emulator
// is stricter than a GPU: shared memory starts as NaN, an asynchronous copy lands only when it is waited for,
// and a barrier or warp operation that not all threads reach is a fault with a name (emulator.h).
//
//   Where am I      thread_x() block_x() block_y() blocks_x() block_threads() lane() warp()
//   Meeting         barrier()  barrier_or(bool)  warp_sync()
//                   shuffle(v, lane)  shuffle_xor(v, mask)  any(bool)  all(bool)
//                   ballot(bool) All threads of the block or all lanes of the warp take part, always.
//   Shared memory   TROUPE_SHARED(T, name, count) declares Shared<T> name; dynamic_shared<T>(offset_bytes,
//                   count), whose byte 0 lies at a multiple of 1024.
//                   Shared<T>: s[i], s.address(i). SharedAddress is what copies and matrix loads take, in
//                   bytes.
//   Copies          copy_async<bytes>(to, from, present): 8 or 16 bytes, aligned; zeros where !present.
//                   copy_async_commit() closes a group; copy_async_wait<n>() waits for all but the last n
//                   groups of this thread. Other threads see the data after a barrier.
//   Tensor cores    load_matrices(r, row_address) is ldmatrix.x4, load_matrices_transposed its .trans form;
//                   multiply_add<Half>(d, a, b0, b1) is mma.sync.m16n8k16, d += a*b in float32.
//   Numbers         Bf16 and F16 name a 16-bit format: pack<Half>(low, high), low_of<Half>(bits),
//   high_of<Half>(bits).
//                   exp2_fast, rsqrt_fast, exp_fast, reciprocal_fast, root, multiply_add(a, b, c) rounds
//                   once. log_of(double), bits_of(float or double), count_bits(u32).
//   Launching       launch("name", kernel, {.blocks=…, .threads=…, .shared_bytes=…}, stream, arguments…);
//   arguments are
//                   copied. A kernel reads `TROUPE_KERNEL(threads) name(…) {`: threads is the most it is
//                   launched with; TROUPE_KERNEL_RESIDENT(threads, blocks) keeps so many registers free that
//                   as many blocks fit on a multiprocessor.
// What only sm_90a has is in simt_hopper.h.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda::simt {

inline constexpr unsigned warp_threads = 32;

// A byte of a block's shared memory.
using SharedAddress = std::uint32_t;

struct LaunchShape {
  unsigned blocks = 1;
  unsigned blocks_y = 1;
  unsigned threads = 32;  // a multiple of 32, at most 1024
  std::size_t shared_bytes = 0;
};

struct Bf16 {};
struct F16 {};
// A number as two F16: rounded, and what is left of it.
struct Split {};

}  // namespace troupe::kernels::cuda::simt

#ifdef TROUPE_EMULATED
#include "kernels/cuda/simt/simt_emulated_inl.h"
#else
#include "kernels/cuda/simt/simt_gpu_inl.h"
#endif
