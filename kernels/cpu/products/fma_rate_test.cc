#include "kernels/cpu/products/fma_rate.h"

#include <doctest/doctest.h>

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
}
