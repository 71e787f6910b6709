#include "kernels/cpu/fma_rate.h"

#include <doctest/doctest.h>

#include <cmath>

#include "kernels/attend.h"

using namespace troupe::kernels;

TEST_SUITE("fma rate") {
  TEST_CASE("an instruction set has a rate where attention can use it, and the widest is one of them") {
    for (const AttendVersion& version : attend_versions()) {
      if (version.name != "avx512" && version.name != "avx2") continue;
      CAPTURE(version.name);
      CHECK(std::isfinite(fma_rate(version.name)) == version.usable);
    }
    CHECK(std::isfinite(fma_rate_together(1)) == std::isfinite(fma_rate(widest_fma())));
  }

  TEST_CASE("several threads have a rate each") {
    CHECK(std::isfinite(fma_rate_together(3)) == std::isfinite(fma_rate(widest_fma())));
  }
}
