// The product of bytes for machines without oneDNN: a plain loop, many times slower, so that an
// int8 model runs everywhere.
#ifndef TROUPE_WITH_ONEDNN
#include <cstring>
#include <vector>

#include "kernels/cpu/products/byte_product.h"

namespace troupe::kernels {

struct ByteProduct::Packed {
  std::size_t rows, columns;
  std::vector<std::int8_t> values;
};

std::int32_t ByteProduct::weight_limit() { return 127; }

std::string_view ByteProduct::version() { return "plain"; }

ByteProduct::ByteProduct(const QuantizedMatrix& weight)
    : packed_(new Packed{weight.rows, weight.columns, weight.values}) {}
ByteProduct::~ByteProduct() = default;

void ByteProduct::run(const std::uint8_t* in, float* out, std::size_t m) const {
  const auto& [rows, columns, values] = *packed_;
  for (std::size_t i = 0; i < m * rows; ++i) {
    const std::uint8_t* x = in + i / rows * columns;
    const std::int8_t* w = &values[i % rows * columns];
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < columns; ++k) sum += x[k] * w[k];
    std::memcpy(out + i, &sum, sizeof sum);
  }
}

}  // namespace troupe::kernels
#endif
