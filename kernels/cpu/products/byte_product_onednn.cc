// Multiplies bytes for int8 linear layers with oneDNN, in builds that have it.
#ifdef TROUPE_WITH_ONEDNN
#include "kernels/cpu/products/byte_product_versions.h"
#include "kernels/cpu/products/onednn_byte_product.h"
#include "kernels/cpu/products/onednn_engine.h"

namespace troupe::kernels {
namespace {

class OnednnProduct final : public ByteProduct {
 public:
  explicit OnednnProduct(const QuantizedMatrix& weight)
      : rows_(weight.rows), product_({weight.rows, weight.columns}, weight.values.data()) {}

  void run(const std::uint8_t* in, float* out, std::size_t m) const override { product_.run(in, out, m); }
  void run_values(const ByteRows& rows, const ColumnScales& columns) const override {
    run_values_in_passes(*this, rows, columns, rows_);
  }

 private:
  std::size_t rows_;
  OnednnByteProduct product_;
};

// Without AVX512_VNNI oneDNN uses vpmaddubsw, which sums two products in 16 bits and saturates.
std::int32_t onednn_weight_limit() { return onednn_has_vnni() ? 127 : 63; }

}  // namespace

ByteProductVersion onednn_byte_product() {
  return {"onednn", true, &onednn_weight_limit,
          [](const QuantizedMatrix& weight, WeightMemory&) -> std::unique_ptr<ByteProduct> {
            return std::make_unique<OnednnProduct>(weight);
          }};
}

}  // namespace troupe::kernels
#endif
