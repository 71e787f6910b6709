#pragma once
// Entries of the table of byte products (byte_product.cc), each made beside its code.
#include <span>

#include "kernels/cpu/products/byte_product.h"

namespace troupe::kernels {

std::span<const ByteProductVersion> panel_byte_products();  // byte_product_panels.cc, best first
ByteProductVersion plain_byte_product();
#ifdef TROUPE_WITH_ONEDNN
ByteProductVersion onednn_byte_product();
#endif

}  // namespace troupe::kernels
