#pragma once
// Implements the primitives of simt_hopper.h as PTX of sm_90a.
#include <type_traits>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TROUPE_SM90A(...) asm volatile(__VA_ARGS__)
#else
#define TROUPE_SM90A(...) __trap()
#endif

namespace troupe::kernels::cuda::simt {

TROUPE_DEVICE void mbarrier_init(SharedAddress at, unsigned arrivals) {
  TROUPE_SM90A("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
TROUPE_DEVICE void mbarrier_arrive(SharedAddress at) {
  TROUPE_SM90A("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
TROUPE_DEVICE void mbarrier_arrive_expecting(SharedAddress at, unsigned bytes) {
  TROUPE_SM90A("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
TROUPE_DEVICE void mbarrier_wait(SharedAddress at, unsigned parity) {
  std::uint32_t over = 1;
  do {
    TROUPE_SM90A(
        "{.reg .pred over;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "selp.u32 %0, 1, 0, over;}"
        : "=r"(over)
        : "r"(at), "r"(parity)
        : "memory");
  } while (over == 0);
}
TROUPE_DEVICE void copy_bulk(SharedAddress to, const void* from, unsigned bytes, SharedAddress mbarrier) {
  TROUPE_SM90A(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(mbarrier)
      : "memory");
}
TROUPE_DEVICE void fence_async() { TROUPE_SM90A("fence.proxy.async.shared::cta;" ::: "memory"); }

template <unsigned threads>
TROUPE_DEVICE void barrier_sync(unsigned number) {
  TROUPE_SM90A("bar.sync %0, %1;" ::"r"(number), "n"(threads) : "memory");
}
template <unsigned threads>
TROUPE_DEVICE void barrier_arrive(unsigned number) {
  TROUPE_SM90A("bar.arrive %0, %1;" ::"r"(number), "n"(threads) : "memory");
}

TROUPE_DEVICE void group_fence() { TROUPE_SM90A("wgmma.fence.sync.aligned;" ::: "memory"); }
TROUPE_DEVICE void group_commit() { TROUPE_SM90A("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <unsigned left>
TROUPE_DEVICE void group_wait() {
  TROUPE_SM90A("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

// Emits an instruction that never executes, and across which the compiler does not move waits.
TROUPE_DEVICE void hold_for(float x) {
  TROUPE_SM90A(
      "{.reg .pred negative; setp.lt.f32 negative, %0, 0f00000000; @negative nanosleep.u32 0;}" ::"f"(x)
      : "memory");
}

template <unsigned registers>
TROUPE_DEVICE void registers_take() {
  TROUPE_SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <unsigned registers>
TROUPE_DEVICE void registers_give() {
  TROUPE_SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Lists sums of four, eight, … columns as operands of a product.
#define TROUPE_D1(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define TROUPE_D4(d, j) TROUPE_D1(d[j]), TROUPE_D1(d[j + 1]), TROUPE_D1(d[j + 2]), TROUPE_D1(d[j + 3])
#define TROUPE_D8(d) TROUPE_D4(d, 0), TROUPE_D4(d, 4)
#define TROUPE_D16(d) TROUPE_D8(d), TROUPE_D4(d, 8), TROUPE_D4(d, 12)
#define TROUPE_32_NAMES                                                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
  "%22, "                                                                                                \
  "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TROUPE_64_NAMES                                                                                    \
  TROUPE_32_NAMES                                                                                          \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
  "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TROUPE_PRODUCT_64(format)                                                                            \
  TROUPE_SM90A(                                                                                              \
      "{.reg .pred add;\nsetp.ne.b32 add, %38, 0;\n.reg .b64 b;\nmov.b64 b, {%36, %37};\n"                   \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." format "." format " {" TROUPE_32_NAMES                   \
      "}, {%32, %33, %34, %35}, b, add, 1, 1, %39;}"                                                         \
      : TROUPE_D8(d)                                                                                         \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.low), "r"(b.high), "r"(std::uint32_t{accumulate}), \
        "n"(rows == Rows::along_columns ? 1 : 0))
#define TROUPE_PRODUCT_128(format)                                                                           \
  TROUPE_SM90A(                                                                                              \
      "{.reg .pred add;\nsetp.ne.b32 add, %70, 0;\n.reg .b64 b;\nmov.b64 b, {%68, %69};\n"                   \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." format "." format " {" TROUPE_64_NAMES                  \
      "}, {%64, %65, %66, %67}, b, add, 1, 1, %71;}"                                                         \
      : TROUPE_D16(d)                                                                                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.low), "r"(b.high), "r"(std::uint32_t{accumulate}), \
        "n"(rows == Rows::along_columns ? 1 : 0))

template <class Half, Rows rows>
TROUPE_DEVICE void multiply_add_group(float (&d)[8][4], const std::uint32_t (&a)[4], GroupMatrix b,
                                      bool accumulate) {
  if constexpr (std::is_same_v<Half, Bf16>)
    TROUPE_PRODUCT_64("bf16");
  else
    TROUPE_PRODUCT_64("f16");
}
template <class Half, Rows rows>
TROUPE_DEVICE void multiply_add_group(float (&d)[16][4], const std::uint32_t (&a)[4], GroupMatrix b,
                                      bool accumulate) {
  if constexpr (std::is_same_v<Half, Bf16>)
    TROUPE_PRODUCT_128("bf16");
  else
    TROUPE_PRODUCT_128("f16");
}

#undef TROUPE_PRODUCT_128
#undef TROUPE_PRODUCT_64
#undef TROUPE_64_NAMES
#undef TROUPE_32_NAMES
#undef TROUPE_D16
#undef TROUPE_D8
#undef TROUPE_D4
#undef TROUPE_D1

}  // namespace troupe::kernels::cuda::simt
