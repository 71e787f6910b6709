#include "kernels/operations/quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

namespace troupe::kernels {
namespace quantize_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();
const std::size_t kWidths[] = {0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  31,
                               32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 256, 896, 1001};

// check(version, width, random) for every version this CPU can run, the reference too, at every width.
template <class Check>
void for_every_version(Check check) {
  for (const Quantize& version : quantize_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    for (const std::size_t width : kWidths) {
      const unsigned seed = std::random_device{}();
      std::mt19937 random(seed);
      CAPTURE(name);
      CAPTURE(width);
      CAPTURE(seed);
      check(version, width, random);
    }
  }
}

// Returns rows of every kind: ordinary ones of several sizes, then those that quantising could get
// wrong.
std::vector<std::vector<float>> rows_of_every_kind(std::size_t width, std::mt19937& random) {
  std::vector<std::vector<float>> rows;
  for (const float size : {1.0f, 1e-6f, 1e6f, 1e-29f, 1e-31f, 1e-38f, 1e-44f}) {
    std::normal_distribution<float> normal(0, size);
    rows.emplace_back(width);
    for (float& value : rows.back()) value = normal(random);
  }
  const std::vector<float> ordinary = rows[0];
  const auto changed = [&](auto change) {
    rows.push_back(ordinary);
    for (float& value : rows.back()) value = change(value);
  };
  for (const float constant : {0.0f, -0.0f, 1.0f, -1.0f, 3.3e38f, -3.3e38f, 255.0f})
    changed([&](float) { return constant; });
  changed([](float x) { return std::abs(x); });
  changed([](float x) { return -std::abs(x); });
  changed([](float x) { return x < 0 ? -kMax : kMax; });       // the range is beyond float32
  changed([](float x) { return std::nearbyint(8 * x) / 2; });  // ties
  changed([](float x) { return x < 0 ? -127.5f : 127.5f; });   // both ends round away: 256 without the limit
  for (const float outlier : {1e9f, -1e9f, kNan, -kNan, kInfinity, -kInfinity}) {
    rows.push_back(ordinary);
    if (width > 0) rows.back()[random() % width] = outlier;
  }
  return rows;
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

TEST_CASE("quantize: every version makes the reference's bytes, scales and zero points of activations") {
  for_every_version([](const Quantize& version, std::size_t width, std::mt19937& random) {
    const auto kinds = rows_of_every_kind(width, random);
    const std::size_t rows = kinds.size(), stride = width + random() % 5;
    // Exact and misaligned, so that the sanitizer sees reads past the end.
    std::vector<float> in(rows == 0 ? 0 : (rows - 1) * stride + width + 1);
    for (std::size_t r = 0; r < rows; ++r) std::copy(kinds[r].begin(), kinds[r].end(), &in[1] + r * stride);
    std::vector<std::uint8_t> got(rows * width + 1, 0xAA), want(rows * width + 1, 0xAA);
    std::vector<RowScale> got_scales(rows, RowScale{kNan, -1}), want_scales = got_scales;
    version.quantize_rows(&in[1], stride, got.data(), got_scales.data(), rows, width);
    quantize_versions().back().quantize_rows(&in[1], stride, want.data(), want_scales.data(), rows, width);
    CHECK(got == want);
    for (std::size_t r = 0; r < rows; ++r) {
      CAPTURE(r);
      CHECK(same_bits(got_scales[r].scale, want_scales[r].scale));
      CHECK(got_scales[r].zero == want_scales[r].zero);
    }
  });
}

TEST_CASE("quantize: every version makes the reference's bytes, scales and sums of weights") {
  for_every_version([](const Quantize& version, std::size_t width, std::mt19937& random) {
    const auto kinds = rows_of_every_kind(width, random);
    const std::size_t rows = kinds.size();
    std::vector<float> in;
    for (const auto& row : kinds) in.insert(in.end(), row.begin(), row.end());
    for (const std::int32_t limit : {127, 63}) {
      std::vector<std::int8_t> got(rows * width + 1, 42), want = got;
      std::vector<float> got_scales(rows, -1), want_scales = got_scales;
      std::vector<std::int32_t> got_sums(rows, -1), want_sums = got_sums;
      version.quantize_weights(in.data(), width, got.data(), got_scales.data(), got_sums.data(), rows, width,
                               limit);
      quantize_versions().back().quantize_weights(in.data(), width, want.data(), want_scales.data(),
                                                  want_sums.data(), rows, width, limit);
      CHECK(got == want);
      CHECK(got_sums == want_sums);
      for (std::size_t r = 0; r < rows; ++r) CHECK(same_bits(got_scales[r], want_scales[r]));
      got.pop_back();
      for (const std::int8_t byte : got) REQUIRE(std::abs(byte) <= limit);
    }
  });
}

TEST_CASE("quantize: a byte is off by at most half a scale, and zero is exact") {
  for_every_version([](const Quantize& version, std::size_t width, std::mt19937& random) {
    for (std::vector<float> row : rows_of_every_kind(width, random)) {
      if (std::any_of(row.begin(), row.end(), [](float x) { return !std::isfinite(x); })) continue;
      if (width > 1) row[1] = 0;
      std::vector<std::uint8_t> bytes(width);
      RowScale scale{kNan, -1};
      version.quantize_rows(row.data(), width, bytes.data(), &scale, 1, width);
      REQUIRE(scale.scale >= 0);
      REQUIRE((scale.zero >= 0 && scale.zero <= 255));
      for (std::size_t i = 0; i < width; ++i) {
        const double back = double(scale.scale) * (bytes[i] - scale.zero);
        // Over 255 steps, scale, inverse and product round 4 times; a row that counts as zeros is
        // below 2^-92.
        const double step = 0.5 + 255 * 4 * std::ldexp(1.0, -24);
        CHECK(std::abs(back - row[i]) <= (scale.scale == 0 ? std::ldexp(1.0, -92) : step * scale.scale));
        if (row[i] == 0) CHECK(bytes[i] == scale.zero);
      }
    }
  });
}

TEST_CASE("quantize: a row that is not finite has scale NaN and bytes of zero") {
  for_every_version([](const Quantize& version, std::size_t width, std::mt19937& random) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      if (width == 0) continue;
      std::vector<float> row(width, 1.0f);
      row[random() % width] = bad;
      std::vector<std::uint8_t> bytes(width, 7);
      RowScale scale{1, 7};
      version.quantize_rows(row.data(), width, bytes.data(), &scale, 1, width);
      CHECK(std::isnan(scale.scale));
      CHECK(scale.zero == 0);
      CHECK(bytes == std::vector<std::uint8_t>(width, 0));
    }
  });
}

TEST_CASE("quantize: every version dequantizes sums like the reference, and writes nothing else") {
  for_every_version([](const Quantize& version, std::size_t width, std::mt19937& random) {
    const std::size_t rows = random() % 10, stride = width + 1 + random() % 5;
    std::uniform_int_distribution<std::int32_t> any_sum(-150'000'000, 150'000'000), any_zero(0, 255),
        any_column(-600'000, 600'000);
    std::normal_distribution<float> normal;
    std::vector<RowScale> row_scales(rows);
    for (RowScale& scale : row_scales) scale = {std::abs(normal(random)) / 100, any_zero(random)};
    std::vector<float> scales(width), bias(width);
    std::vector<std::int32_t> sums(width);
    for (std::size_t i = 0; i < width; ++i)
      scales[i] = std::abs(normal(random)) / 100, bias[i] = normal(random), sums[i] = any_column(random);
    if (rows > 2) row_scales[1].scale = kNan, row_scales[2].scale = 0;
    std::vector<float> got(rows * stride, kNan);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::int32_t sum = any_sum(random);
      if (i % stride < width) std::memcpy(&got[i], &sum, sizeof sum);
    }
    std::vector<float> want = got;
    const ColumnScales columns{scales.data(), sums.data(), bias.data()};
    version.dequantize_rows(got.data(), stride, row_scales.data(), columns, rows, width);
    quantize_versions().back().dequantize_rows(want.data(), stride, row_scales.data(), columns, rows, width);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      if (i % stride >= width || (rows > 2 && i / stride == 1)) {
        CHECK(std::isnan(got[i]));
        continue;
      }
      // The sum becomes a float and is scaled twice, then the bias is added: four roundings, and the
      // reference's.
      const double size =
          std::abs(want[i] - bias[i % stride]) + std::abs(want[i]) + std::abs(bias[i % stride]);
      CHECK(std::abs(double(got[i]) - want[i]) <= 4 * std::ldexp(size, -24));
    }
  });
}

TEST_CASE("quantize: the chosen version is usable, and the table ends with the reference") {
  CHECK(quantize().usable);
  CHECK(quantize_versions().back().name == "reference");
  CHECK(quantize_versions().back().usable);
}

}  // namespace quantize_test
}  // namespace troupe::kernels
