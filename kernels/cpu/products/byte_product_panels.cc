// Our own products of bytes, in the frame of the float32 product: a word of four columns takes the place
// of a float, so that blocks, tiles and prefetches are the same and each instruction multiplies four times
// as much. An input is read where it is. Only rows whose width is no multiple of four are copied first,
// each padded to whole words; the weight's padding is zero. Sums become values in the registers of a tile.
// Operations: 2 per row and weight. Bytes: a quarter of the float32 product's.
#include "kernels/cpu/versions/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products/byte_product_panels.cc"
#include "hwy/foreach_target.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/cpu/products/byte_product_versions.h"
#include "kernels/cpu/products/product.h"
#include "kernels/cpu/products/product_frame_inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
#if TROUPE_BYTE_TARGET

void multiply_bytes(const PackedMatrix& weight, const ProductTask& task) {
  Multiplication<ByteStep>(weight, task).run();
}
std::size_t byte_panel_width() { return kPanel; }

#endif  // TROUPE_BYTE_TARGET
#if TROUPE_VNNI_TARGET

void multiply_bytes_vnni(const PackedMatrix& weight, const ProductTask& task) {
  Multiplication<VnniStep>(weight, task).run();
}

#endif  // TROUPE_VNNI_TARGET
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {
namespace {

// Rows that are padded at once, when rows are no whole words.
constexpr std::size_t rows_padded_at_once = 64;

class PanelByteProduct final : public ByteProduct {
 public:
  PanelByteProduct(const QuantizedMatrix& weight, std::size_t panel_width, Product* multiply,
                   WeightMemory& memory)
      : weight_(weight, panel_width, memory), multiply_(multiply) {}

  void run(const std::uint8_t* in, float* out, std::size_t m) const override {
    multiply_words({.in = in, .scales = nullptr, .out = out, .rows = m, .add = false}, {});
  }
  void run_values(const ByteRows& rows, const ColumnScales& columns) const override {
    multiply_words(rows, columns);
  }

 private:
  // Multiplies rows of any width.
  void multiply_words(ByteRows rows, const ColumnScales& scales) const {
    TROUPE_CHECK(reinterpret_cast<std::uintptr_t>(rows.in) % 4 == 0,
                 "byte product: the input must be aligned to 4 bytes");
    if (weight_.columns() % 4 == 0) return multiply(rows, scales);
    const std::size_t columns = weight_.columns(), width = 4 * weight_.words();
    thread_local std::vector<std::uint8_t> padded;
    if (padded.size() < rows_padded_at_once * width) padded.resize(rows_padded_at_once * width);
    while (rows.rows > 0) {
      ByteRows some = rows;
      some.in = padded.data();
      some.rows = std::min(rows.rows, rows_padded_at_once);
      for (std::size_t r = 0; r < some.rows; ++r)
        std::memcpy(&padded[r * width], rows.in + r * columns, columns);
      multiply(some, scales);
      rows.in += some.rows * columns;
      rows.out += some.rows * weight_.rows();
      if (rows.scales != nullptr) rows.scales += some.rows;
      rows.rows -= some.rows;
    }
  }

  // Multiplies rows of whole words. Bytes and sums are passed as floats, which the steps of bytes only
  // load, broadcast and store.
  void multiply(const ByteRows& rows, const ColumnScales& scales) const {
    multiply_(weight_, {.in = reinterpret_cast<const float*>(rows.in),
                        .in_stride = weight_.words(),
                        .out = rows.out,
                        .out_stride = weight_.rows(),
                        .rows = rows.rows,
                        .add = rows.add,
                        .row_scales = rows.scales,
                        .column_scales = scales});
  }

  PackedMatrix weight_;
  Product* multiply_;
};

// One version, made of a target's product and the width of its panels.
template <Product* multiply, std::size_t (*panel_width)()>
std::unique_ptr<ByteProduct> pack_panels(const QuantizedMatrix& weight, WeightMemory& memory) {
  return std::make_unique<PanelByteProduct>(weight, panel_width(), multiply, memory);
}

[[maybe_unused]] std::int32_t all_bits() { return 127; }
[[maybe_unused]] std::int32_t seven_bits() { return 63; }

}  // namespace

std::span<const ByteProductVersion> panel_byte_products() {
  [[maybe_unused]] static const std::int64_t here = HWY_SUPPORTED_TARGETS;
#define TROUPE_VNNI_ENTRY(name, space, usable) \
  {name, usable, &all_bits, &pack_panels<&space::multiply_bytes_vnni, &space::byte_panel_width>},
#define TROUPE_ENTRY(name, space, target) \
  {name, (here & (target)) != 0, &seven_bits, &pack_panels<&space::multiply_bytes, &space::byte_panel_width>},
  static const std::vector<ByteProductVersion> versions = {
#if HWY_TARGETS & HWY_AVX3
    TROUPE_VNNI_ENTRY("avx512_vnni", N_AVX3, (here & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni"))
#endif
        TROUPE_AVX512(TROUPE_ENTRY)
#if HWY_TARGETS & HWY_AVX2
            TROUPE_VNNI_ENTRY("avx_vnni", N_AVX2, (here & HWY_AVX2) != 0 && __builtin_cpu_supports("avxvnni"))
#endif
                TROUPE_AVX2(TROUPE_ENTRY) TROUPE_SSE4(TROUPE_ENTRY)
  };
#undef TROUPE_VNNI_ENTRY
#undef TROUPE_ENTRY
  return versions;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
