// Multiplies bytes for int8 linear layers with oneDNN, in builds that have it.
#ifdef TROUPE_WITH_ONEDNN
#include "kernels/cpu/products/byte_product.h"
#include "kernels/cpu/products/onednn_byte_product.h"
#include "kernels/cpu/products/onednn_engine.h"

namespace troupe::kernels {

struct ByteProduct::Packed {
  OnednnByteProduct product;
};

// Without VNNI oneDNN uses vpmaddubsw, which sums two products in 16 bits and saturates.
std::int32_t ByteProduct::weight_limit() { return onednn_has_vnni() ? 127 : 63; }

std::string_view ByteProduct::version() { return "onednn"; }

ByteProduct::ByteProduct(const QuantizedMatrix& weight)
    : packed_(new Packed{OnednnByteProduct({weight.rows, weight.columns}, weight.values.data())}) {}
ByteProduct::~ByteProduct() = default;

void ByteProduct::run(const std::uint8_t* in, float* out, std::size_t m) const {
  packed_->product.run(in, out, m);
}

}  // namespace troupe::kernels
#endif
