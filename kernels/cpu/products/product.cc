// Vector versions of the matrix product in float32 and bf16 (its frame: product_frame_inl.h). Weights in
// bf16 are widened in the registers of a tile or, for a block of several tiles, once for all of them. The
// version with AVX512_BF16 rounds a block's rows to pairs of bf16, which it multiplies as it would floats
// of a sum half as long. Operations: 2 per row and weight.
// Bytes: the weight once per block of rows; the input once per block from memory and once per pair
// of panels from the cache; the output once.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products/product.cc"
#include "hwy/foreach_target.h"

#include <cstdint>

#include "kernels/base/check.h"
#include "kernels/cpu/products/product.h"
#include "kernels/cpu/products/product_frame_inl.h"
#include "kernels/operations/versions.h"

#ifndef TROUPE_KERNELS_CPU_PRODUCTS_PRODUCT_ONCE
#define TROUPE_KERNELS_CPU_PRODUCTS_PRODUCT_ONCE
namespace troupe::kernels {

// The memory is not allocated, so that a thread's first product allocates nothing either.
float* block_memory() {
  alignas(64) thread_local float memory[kBlockFloats];
  return memory;
}

}  // namespace troupe::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_VECTOR_TARGET

template <class Bf16Step>
void run_product(const PackedMatrix& weight, const ProductTask& task) {
  TROUPE_CHECK(weight.panel_width() == kPanel,
               "product: the weight must be packed for the version that runs");
  TROUPE_CHECK(weight.format() != WeightFormat::int8, "product: expected a weight in float32 or bf16");
  if (weight.format() == WeightFormat::bf16)
    Multiplication<Bf16Step>(weight, task).run();
  else
    Multiplication<FloatStep>(weight, task).run();
}

void product(const PackedMatrix& weight, const ProductTask& task) { run_product<WidenedStep>(weight, task); }
#if TROUPE_PAIR_TARGET
void product_of_pairs(const PackedMatrix& weight, const ProductTask& task) {
  run_product<PairStep>(weight, task);
}
#endif

std::size_t panel_width() { return kPanel; }

#endif  // TROUPE_VECTOR_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

std::span<const ProductVersion> product_versions() {
  static const std::int64_t here = HWY_SUPPORTED_TARGETS;
  constexpr std::size_t reference_panel = 8;  // the reference accepts any width
#define TROUPE_ENTRY(name, space, target) \
  {name, space::panel_width(), &space::product, (here & (target)) != 0, false},
  static const ProductVersion versions[] = {
#if HWY_TARGETS & HWY_AVX3
    {"avx512_bf16", N_AVX3::panel_width(), &N_AVX3::product_of_pairs,
     (here & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16"), true},
#endif
    TROUPE_TARGETS(TROUPE_ENTRY){"reference", reference_panel, &product_reference, true, false}
  };
#undef TROUPE_ENTRY
  return versions;
}

const ProductVersion& product_version() {
  static const ProductVersion& chosen = first_usable(product_versions());
  return chosen;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
