#pragma once
// Runs a test with each version of the byte products that this CPU has.
#include <doctest/doctest.h>

#include <string>

#include "kernels/cpu/products/byte_product.h"

namespace troupe::kernels {

template <class Check>
void for_every_byte_product(Check check) {
  for (const ByteProductVersion& version : byte_product_versions()) {
    const std::string name(version.name);
    CAPTURE(name);
    if (version.usable)
      check(version);
    else
      MESSAGE("this CPU cannot run " << name);
  }
}

}  // namespace troupe::kernels
