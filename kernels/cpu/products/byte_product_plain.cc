// The product of bytes as a plain loop: the definition, and what CPUs without a version of their own run.
#include <cstring>
#include <vector>

#include "kernels/cpu/products/byte_product_versions.h"

namespace troupe::kernels {
namespace {

class PlainByteProduct final : public ByteProduct {
 public:
  explicit PlainByteProduct(const QuantizedMatrix& weight)
      : rows_(weight.rows), columns_(weight.columns), values_(weight.values) {}

  void run(const std::uint8_t* in, float* out, std::size_t m) const override {
    for (std::size_t i = 0; i < m * rows_; ++i) {
      const std::uint8_t* x = in + i / rows_ * columns_;
      const std::int8_t* w = &values_[i % rows_ * columns_];
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < columns_; ++k) sum += x[k] * w[k];
      std::memcpy(out + i, &sum, sizeof sum);
    }
  }
  void run_values(const ByteRows& rows, const ColumnScales& columns) const override {
    run_values_in_passes(*this, rows, columns, rows_);
  }

 private:
  std::size_t rows_, columns_;
  std::vector<std::int8_t> values_;
};

}  // namespace

ByteProductVersion plain_byte_product() {
  return {"plain", true, [] { return std::int32_t{127}; },
          [](const QuantizedMatrix& weight, WeightMemory&) -> std::unique_ptr<ByteProduct> {
            return std::make_unique<PlainByteProduct>(weight);
          }};
}

}  // namespace troupe::kernels
