#pragma once
// Implements the primitives of simt.h as GPU instructions; simt.h includes it if nvcc compiles.
#include <cuda_runtime.h>

#include "kernels/cuda/device/cuda_error.h"

#define TROUPE_KERNEL(threads) __global__ void __launch_bounds__(threads)
#define TROUPE_KERNEL_RESIDENT(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define TROUPE_DEVICE __device__ __forceinline__
#define TROUPE_UNROLL _Pragma("unroll")
#define TROUPE_SHARED(type, name, count) \
  __shared__ type name##_memory[count];  \
  const ::troupe::kernels::cuda::simt::Shared<type> name { name##_memory }

namespace troupe::kernels::cuda::simt {

TROUPE_DEVICE unsigned thread_x() { return threadIdx.x; }
TROUPE_DEVICE unsigned block_x() { return blockIdx.x; }
TROUPE_DEVICE unsigned block_y() { return blockIdx.y; }
TROUPE_DEVICE unsigned blocks_x() { return gridDim.x; }
TROUPE_DEVICE unsigned block_threads() { return blockDim.x; }
TROUPE_DEVICE unsigned lane() { return threadIdx.x % warp_threads; }
TROUPE_DEVICE unsigned warp() { return threadIdx.x / warp_threads; }

TROUPE_DEVICE void barrier() { __syncthreads(); }
TROUPE_DEVICE bool barrier_or(bool value) { return __syncthreads_or(value) != 0; }
TROUPE_DEVICE void warp_sync() { __syncwarp(); }
template <class T>
TROUPE_DEVICE T shuffle(T value, unsigned from) {
  return __shfl_sync(~0u, value, static_cast<int>(from));
}
template <class T>
TROUPE_DEVICE T shuffle_xor(T value, unsigned mask) {
  return __shfl_xor_sync(~0u, value, static_cast<int>(mask));
}
TROUPE_DEVICE bool any(bool value) { return __any_sync(~0u, value) != 0; }
TROUPE_DEVICE bool all(bool value) { return __all_sync(~0u, value) != 0; }
TROUPE_DEVICE std::uint32_t ballot(bool value) { return __ballot_sync(~0u, value); }

template <class T>
struct Shared {
  T* at;
  TROUPE_DEVICE T& operator[](std::size_t i) const { return at[i]; }
  TROUPE_DEVICE SharedAddress address(std::size_t i) const {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(at + i));
  }
};

template <class T>
TROUPE_DEVICE Shared<T> dynamic_shared(std::size_t offset_bytes, std::size_t) {
  extern __shared__ __align__(1024) unsigned char troupe_dynamic_shared[];
  return {reinterpret_cast<T*>(troupe_dynamic_shared + offset_bytes)};
}

TROUPE_DEVICE std::uint32_t atomic_or(const Shared<std::uint32_t>& to, std::size_t i, std::uint32_t bits) {
  return atomicOr(&to[i], bits);
}

template <unsigned bytes>
TROUPE_DEVICE void copy_async(SharedAddress to, const void* from, bool present) {
  static_assert(bytes == 8 || bytes == 16, "cp.async of 8 or 16 bytes");
  const unsigned read = present ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
}
TROUPE_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned left>
TROUPE_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

TROUPE_DEVICE void load_matrices(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
TROUPE_DEVICE void load_matrices_transposed(std::uint32_t (&r)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

template <class Half>
TROUPE_DEVICE void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1);
template <>
TROUPE_DEVICE void multiply_add<Bf16>(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                      std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
TROUPE_DEVICE void multiply_add<F16>(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class Half>
TROUPE_DEVICE std::uint32_t pack(float low, float high);
template <>
TROUPE_DEVICE std::uint32_t pack<Bf16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
template <>
TROUPE_DEVICE std::uint32_t pack<F16>(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
TROUPE_DEVICE float from_f16_bits(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
template <class Half>
TROUPE_DEVICE float low_of(std::uint32_t bits);
template <>
TROUPE_DEVICE float low_of<Bf16>(std::uint32_t bits) {
  return __uint_as_float(bits << 16);
}
template <>
TROUPE_DEVICE float low_of<F16>(std::uint32_t bits) {
  return from_f16_bits(static_cast<unsigned short>(bits));
}
template <class Half>
TROUPE_DEVICE float high_of(std::uint32_t bits);
template <>
TROUPE_DEVICE float high_of<Bf16>(std::uint32_t bits) {
  return __uint_as_float(bits & 0xffff0000u);
}
template <>
TROUPE_DEVICE float high_of<F16>(std::uint32_t bits) {
  return from_f16_bits(static_cast<unsigned short>(bits >> 16));
}

TROUPE_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TROUPE_DEVICE float exp_fast(float x) { return exp2_fast(x * 1.44269504f); }
TROUPE_DEVICE float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
TROUPE_DEVICE float root(float x) { return sqrtf(x); }
TROUPE_DEVICE float rsqrt_fast(float x) { return rsqrtf(x); }
TROUPE_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
TROUPE_DEVICE double log_of(double x) { return ::log(x); }
TROUPE_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
TROUPE_DEVICE std::uint64_t bits_of(double x) { return static_cast<std::uint64_t>(__double_as_longlong(x)); }
TROUPE_DEVICE std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(bits));
}
TROUPE_DEVICE float larger(float a, float b) { return fmaxf(a, b); }

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, Stream& stream,
            const Arguments&... arguments) {
  const auto check = [name](cudaError_t error) {
    if (error != cudaSuccess) cuda_failed(name, error);
  };
  constexpr std::size_t always_allowed = 48 * 1024;
  if (shape.shared_bytes > always_allowed)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)));
  kernel<<<dim3(shape.blocks, shape.blocks_y), shape.threads, shape.shared_bytes,
           static_cast<cudaStream_t>(stream.handle())>>>(arguments...);
  check(cudaGetLastError());
}

}  // namespace troupe::kernels::cuda::simt
