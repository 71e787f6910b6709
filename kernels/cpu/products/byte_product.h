#pragma once
// The matrix product under an int8 linear layer: unsigned bytes by signed bytes, with the weight
// packed once. Uses oneDNN if it is installed (byte_product_onednn.cc), otherwise a plain loop,
// which is correct but slow. Rows follow each other without gaps; `run` is thread-safe.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/operations/quantize.h"

namespace troupe::kernels {

class ByteProduct {
 public:
  // Returns the maximum magnitude of a weight for which this CPU's product is exact: 127, or 63 if
  // two products are summed in 16 bits (x86 without VNNI: 2 · 255 · 63 just fits).
  static std::int32_t weight_limit();

  static std::string_view version();  // what multiplies: "onednn" or "plain"

  explicit ByteProduct(const QuantizedMatrix& weight);  // packs a copy of its values
  ~ByteProduct();
  // out[m, rows] = in[m, columns] · weightᵀ. Writes exact int32 sums into the memory of `out`; the
  // caller turns them into floats in place.
  void run(const std::uint8_t* in, float* out, std::size_t m) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace troupe::kernels
