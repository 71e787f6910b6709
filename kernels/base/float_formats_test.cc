#include "kernels/base/float_formats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

namespace troupe::kernels {
namespace {

TEST_CASE("float formats: every 16-bit pattern survives widening and narrowing") {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float half = from_f16(bits), brain = from_bf16(bits);
    if (std::isnan(half))
      REQUIRE(std::isnan(from_f16(to_f16(half))));
    else
      REQUIRE(to_f16(half) == bits);
    if (std::isnan(brain))
      REQUIRE(std::isnan(from_bf16(to_bf16(brain))));
    else
      REQUIRE(to_bf16(brain) == bits);
  }
}

TEST_CASE("float formats: widening gives the values of IEEE 754") {
  CHECK(from_f16(0x3c00) == 1.0f);
  CHECK(from_f16(0xc000) == -2.0f);
  CHECK(from_f16(0x7bff) == 65504.0f);
  CHECK(from_f16(0x0400) == 0x1p-14f);
  CHECK(from_f16(0x0001) == 0x1p-24f);
  CHECK(std::signbit(from_f16(0x8000)));
  CHECK(from_f16(0xfc00) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(from_f16(0x7c01)));
  CHECK(from_bf16(0x3fc0) == 1.5f);
}

TEST_CASE("float formats: narrowing rounds to nearest, ties to even") {
  CHECK(to_f16(1 + 0x1p-11f) == 0x3c00);      // tie, down to even
  CHECK(to_f16(1 + 3 * 0x1p-11f) == 0x3c02);  // tie, up to even
  CHECK(to_f16(1 + 0x1p-11f + 0x1p-20f) == 0x3c01);
  CHECK(to_f16(0x1p-25f) == 0x0000);  // tie between 0 and the least subnormal
  CHECK(to_f16(3 * 0x1p-25f) == 0x0002);
  CHECK(to_f16(65519.0f) == 0x7bff);
  CHECK(to_f16(-65520.0f) == 0xfc00);
  CHECK(to_bf16(1 + 0x1p-8f) == 0x3f80);
  CHECK(to_bf16(1 + 3 * 0x1p-8f) == 0x3f82);
  CHECK(to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
}

TEST_CASE("float formats: no neighbour is nearer than the narrowed value") {
  constexpr std::uint32_t kSeed = 7;
  CAPTURE(kSeed);
  std::mt19937 chance(kSeed);
  std::uniform_real_distribution<float> exponent(-26, 15.9f), sign(-1, 1);
  for (int i = 0; i < 20000; ++i) {
    const float value = std::copysign(std::exp2(exponent(chance)), sign(chance));
    const std::uint16_t narrow = to_f16(value);
    const double error = std::abs(double(from_f16(narrow)) - value);
    for (const int step : {-1, 1})
      if ((narrow & 0x7fff) + step >= 0)
        REQUIRE(error <= std::abs(double(from_f16(static_cast<std::uint16_t>(narrow + step))) - value));
  }
}

}  // namespace
}  // namespace troupe::kernels
