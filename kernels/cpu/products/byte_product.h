#pragma once
// The matrix product under an int8 linear layer: unsigned bytes by signed bytes, with the weight packed
// once. Our own versions run in the frame of the float32 product (byte_product_panels.cc), with VNNI's
// instruction where the CPU has it; oneDNN is another version in builds that have it, and a plain loop is
// the definition. All are exact, so all give the same sums.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/cpu/products/weight_memory.h"
#include "kernels/operations/quantize.h"

namespace troupe::kernels {

// Rows of bytes that become rows of an int8 layer's output.
struct ByteRows {
  const std::uint8_t* in;  // as in ByteProduct::run
  const RowScale* scales;  // [rows]
  float* out;
  std::size_t rows;
  bool add;  // to the values in `out`, for a residual stream
};

// Arrays of ColumnScales are padded to a multiple of this with zeros.
inline constexpr std::size_t byte_columns_padding = 64;

class ByteProduct {
 public:
  virtual ~ByteProduct() = default;
  // out[m, rows] = in[m, columns] · weightᵀ; rows follow each other without gaps. Writes exact int32 sums
  // into the memory of `out`; the caller turns them into floats in place. `in` is aligned to 4 bytes.
  // Thread-safe.
  virtual void run(const std::uint8_t* in, float* out, std::size_t m) const = 0;
  // Multiplies and turns the sums into values, as DequantizeRows does. Thread-safe.
  virtual void run_values(const ByteRows& rows, const ColumnScales& columns) const = 0;
};

// Multiplies, then turns the sums into values in a pass over them; for products that cannot do both at once.
// `columns` is the number of the product's columns.
void run_values_in_passes(const ByteProduct& product, const ByteRows& rows, const ColumnScales& scales,
                          std::size_t columns);

struct ByteProductVersion {
  std::string_view name;  // "onednn", "avx512_vnni", "avx512", "avx_vnni", "avx2", "sse4", "plain"
  bool usable;            // on this CPU
  // Returns the maximum magnitude of a weight for which the product is exact: 127, or 63 if two products
  // are summed in 16 bits (x86 without VNNI: 2 · 255 · 63 just fits).
  std::int32_t (*weight_limit)();
  // Packs a copy of the weight's values, in `memory` if it is in panels.
  std::unique_ptr<ByteProduct> (*pack)(const QuantizedMatrix& weight, WeightMemory& memory);
};

std::span<const ByteProductVersion> byte_product_versions();  // best first; the last is "plain"
const ByteProductVersion& byte_product_version();             // the best one for this CPU, chosen once

}  // namespace troupe::kernels
