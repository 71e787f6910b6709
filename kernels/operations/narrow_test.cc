#include "kernels/operations/narrow.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

template <class Check>
void for_every_version(Check check) {
  for (const NarrowVersion& version : narrow_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    CAPTURE(name);
    check(version);
  }
}

// Returns true if the stored values equal those of the scalar functions; any two NaNs are equal.
bool exact(const NarrowVersion& version, const std::vector<float>& values) {
  std::vector<std::uint16_t> f16(values.size(), 0xaaaa), bf16 = f16;
  version.to_f16(values.data(), 0, f16.data(), 1, values.size());
  version.to_bf16(values.data(), 0, bf16.data(), 1, values.size());
  bool equal = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]))
      equal = equal && std::isnan(from_f16(f16[i])) && std::isnan(from_bf16(bf16[i]));
    else
      equal = equal && f16[i] == to_f16(values[i]) && bf16[i] == to_bf16(values[i]);
  }
  return equal;
}

TEST_CASE("narrow: every edge of rounding agrees with the scalar functions") {
  // Each value of a 16-bit format, the middle between it and the next, and their neighbours in float32:
  // subnormals, ties, overflow, infinity and NaN are among them.
  for_every_version([](const NarrowVersion& version) {
    std::vector<float> values;
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto stored = static_cast<std::uint16_t>(i);
      for (const float value : {from_f16(stored), from_bf16(stored)}) {
        const auto bits = std::bit_cast<std::uint32_t>(value);
        for (const std::uint32_t half : {0u, 0x1000u, 0x8000u})
          for (const std::uint32_t step : {0u - 1u, 0u, 1u})
            values.push_back(std::bit_cast<float>(bits + half + step));
      }
    }
    CHECK(exact(version, values));
  });
}

TEST_CASE("narrow: halfway between subnormal halves rounds to the even one") {
  for_every_version([](const NarrowVersion& version) {
    std::vector<float> values;
    for (int i = 0; i < 4 * 1024; ++i)
      for (const float off : {-0x1p-40f, 0.0f, 0x1p-40f})
        values.push_back((float(i) * 0x1p-26f + off) * (i % 3 == 0 ? -1.0f : 1.0f));
    CHECK(exact(version, values));
  });
}

TEST_CASE("narrow: any bit pattern is rounded as by the scalar functions") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<float> values(200000);
  for (float& value : values) value = std::bit_cast<float>(std::uint32_t(random()));
  for_every_version([&](const NarrowVersion& version) { CHECK(exact(version, values)); });
}

TEST_CASE("narrow: rows of any width and stride are packed, and nothing beside them is written") {
  for_every_version([](const NarrowVersion& version) {
    for (const std::size_t width : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 80}) {
      constexpr std::size_t rows = 3;
      const std::size_t stride = width + width % 5;
      CAPTURE(width);
      std::vector<float> in(rows * stride);  // exact, so that the sanitizer sees reads past it
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = 0.3f * float(i);
      if (width > 0) in.resize((rows - 1) * stride + width);
      for (const bool half : {true, false}) {
        std::vector<std::uint16_t> to(rows * width + 2, 0xaaaa);
        (half ? version.to_f16 : version.to_bf16)(in.data(), stride, to.data() + 1, rows, width);
        for (std::size_t i = 0; i < rows * width; ++i) {
          const float value = in[i / width * stride + i % width];
          REQUIRE(to[i + 1] == (half ? to_f16(value) : to_bf16(value)));
        }
        CHECK(to.front() == 0xaaaa);
        CHECK(to.back() == 0xaaaa);
      }
    }
  });
}

TEST_CASE("narrow: the chosen version is usable, and the table ends with the reference") {
  CHECK(narrowing().usable);
  CHECK(narrow_versions().back().name == "reference");
  CHECK(narrow_versions().back().usable);
}

}  // namespace
}  // namespace troupe::kernels
