#include "kernels/cpu/products/fma_rate.h"

#include <doctest/doctest.h>

#include "kernels/cpu/products/product.h"
#include "kernels/operations/attend.h"

using namespace troupe::kernels;

TEST_SUITE("fma rate") {
  TEST_CASE(
      "fma rate: an instruction set has a rate where attention can use it, and the widest is one of them") {
    for (const AttendVersion& version : attend_versions()) {
      if (version.name != "avx512" && version.name != "avx2") continue;
      CAPTURE(version.name);
      CHECK((fma_rate(version.name) > 0) == version.usable);
      if (version.usable) CHECK(widest_fma() != "none");
    }
  }

  TEST_CASE("fma rate: several threads have a rate each") {
    CHECK((fma_rate_together(3) > 0) == (fma_rate(widest_fma()) > 0));
  }

  TEST_CASE(
      "multiply-add rates: every format has a rate where float32 has one, of an instruction with a name") {
    const MultiplyAddRates rates = multiply_add_rates(2);
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::int8, WeightFormat::bf16}) {
      CAPTURE(format_name(format));
      CHECK((rates.of(format) > 0) == (fma_rate(widest_fma()) > 0));
      CHECK(!widest_multiply_add(format).empty());
    }
  }

  TEST_CASE("multiply-add rates: bf16 has an instruction of its own exactly where products round to bf16") {
    const bool own = widest_multiply_add(WeightFormat::bf16) != widest_multiply_add(WeightFormat::f32);
    CHECK(own == product_version().rounds_input);
  }
}
