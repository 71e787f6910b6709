#include "kernels/operations/elementwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace troupe::kernels;

namespace elementwise_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const double kUnit = std::ldexp(1.0, -24);  // unit roundoff of float32
const std::size_t kWidths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 896, 1001};

// `rows` rows of `width` floats, `gap` unused ones between them. The allocation is exact, so that the
// sanitizer sees reads past it, and starts `gap` floats in, so that vectors are misaligned.
struct Matrix {
  Matrix(std::size_t rows, std::size_t width, std::size_t gap)
      : rows(rows), width(width), stride(width + gap), first(gap), floats(rows * stride + gap, kNan) {}

  Matrix& fill(std::mt19937& random, float size = 1) {
    std::normal_distribution<float> normal(0, size);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < width; ++i) row(r)[i] = normal(random);
    return *this;
  }
  float* data() { return floats.data() + first; }
  float* row(std::size_t r) { return data() + r * stride; }

  std::size_t rows, width, stride, first;
  std::vector<float> floats;
};

// Every value of `got` is within bound(row, column) of `want`, and the gaps are untouched.
template <class Bound>
void check_close(Matrix& got, Matrix& want, Bound bound) {
  for (std::size_t r = 0; r < got.rows; ++r)
    for (std::size_t i = 0; i < got.width; ++i) {
      CAPTURE(r);
      CAPTURE(i);
      REQUIRE(std::abs(double(got.row(r)[i]) - want.row(r)[i]) <= bound(r, i));
    }
  for (std::size_t at = 0; at < got.floats.size(); ++at)
    if (at < got.first || (at - got.first) % got.stride >= got.width) REQUIRE(std::isnan(got.floats[at]));
}

// check(version, reference, width, rows, gap, random) for every version this CPU can run.
template <class Check>
void for_every_version(Check check) {
  const Elementwise& reference = elementwise_versions().back();
  for (const Elementwise& version : elementwise_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    for (std::size_t width : kWidths) {
      const unsigned seed = std::random_device{}();
      std::mt19937 random(seed);
      const std::size_t rows = width == 5 ? 0 : 1 + width % 3, gap = random() % 6;
      CAPTURE(name);
      CAPTURE(width);
      CAPTURE(seed);
      check(version, reference, width, rows, gap, random);
    }
  }
}

TEST_CASE("rms_norm: it agrees with the reference, also in place") {
  for_every_version([](const Elementwise& version, const Elementwise& reference, std::size_t width,
                       std::size_t rows, std::size_t gap, std::mt19937& random) {
    for (float size : {1e-6f, 1.0f, 1e6f}) {
      Matrix in(rows, width, gap), weight(1, width, gap), got(rows, width, gap + 1),
          want(rows, width, gap + 1);
      in.fill(random, size);
      weight.fill(random);
      reference.rms_norm(in.data(), in.stride, weight.data(), 1e-6f, want.data(), want.stride, rows, width);
      version.rms_norm(in.data(), in.stride, weight.data(), 1e-6f, got.data(), got.stride, rows, width);
      // The sum of `width` squares errs by sqrt(width) units (Higham and Mary 2019, 6 deviations), its root
      // by half of that; four more operations round.
      const auto bound = [&](std::size_t r, std::size_t i) {
        return std::abs(want.row(r)[i]) * kUnit * (3 * std::sqrt(double(width)) + 6);
      };
      check_close(got, want, bound);
      version.rms_norm(in.data(), in.stride, weight.data(), 1e-6f, in.data(), in.stride, rows, width);
      check_close(in, want, bound);
    }
  });
}

TEST_CASE("rope: it agrees with the reference and leaves an odd last value alone") {
  for_every_version([](const Elementwise& version, const Elementwise& reference, std::size_t head_dim,
                       std::size_t rows, std::size_t gap, std::mt19937& random) {
    for (std::size_t heads : {1, 3}) {
      const std::size_t half = head_dim / 2;
      Matrix values(rows, heads * head_dim, gap), angles(rows, half, 0), sines = angles;
      values.fill(random);
      angles.fill(random, 3);
      for (std::size_t i = 0; i < rows * half; ++i) {
        const float angle = angles.floats[i];
        angles.floats[i] = std::cos(angle);
        sines.floats[i] = std::sin(angle);
      }
      Matrix got = values, want = values;
      reference.rope(want.data(), want.stride, rows, heads, head_dim, angles.data(), sines.data());
      version.rope(got.data(), got.stride, rows, heads, head_dim, angles.data(), sines.data());
      check_close(got, want, [&](std::size_t r, std::size_t i) {
        const std::size_t head = i / head_dim * head_dim, in_head = i % head_dim;
        if (in_head >= 2 * half) return 0.0;
        const float* const pair = values.row(r) + head + in_head % half;
        return 3 * kUnit * (std::abs(pair[0]) + std::abs(pair[half]));  // two products and their sum
      });
    }
  });
}

TEST_CASE("swiglu: it agrees with the reference from tiny to overwhelming gates") {
  for_every_version([](const Elementwise& version, const Elementwise& reference, std::size_t width,
                       std::size_t rows, std::size_t gap, std::mt19937& random) {
    for (float size : {1e-3f, 1.0f, 30.0f, 1e3f, 1e30f}) {
      Matrix in(rows, 2 * width, gap), got(rows, width, gap), want(rows, width, gap);
      in.fill(random, size);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < width; ++i) in.row(r)[width + i] /= size;  // up stays near one
      reference.swiglu(in.data(), in.stride, want.data(), want.stride, rows, width);
      version.swiglu(in.data(), in.stride, got.data(), got.stride, rows, width);
      // The exponential errs by 5 units, then sum, quotient and product round. A gate below -87 counts as
      // zero: its silu is under 88 e^-87.
      check_close(got, want, [&](std::size_t r, std::size_t i) {
        return 9 * kUnit * std::abs(want.row(r)[i]) + 1.5e-36 * std::abs(in.row(r)[width + i]) + 1e-44;
      });
    }
  });
}

TEST_CASE("sigmoid_gate: it agrees with the reference from tiny to overwhelming gates, also in place") {
  for_every_version([](const Elementwise& version, const Elementwise& reference, std::size_t width,
                       std::size_t rows, std::size_t gap, std::mt19937& random) {
    for (float size : {1e-3f, 1.0f, 30.0f, 1e3f, 1e30f}) {
      Matrix in(rows, width, gap), gate(rows, width, gap + 1), want(rows, width, gap + 1);
      in.fill(random);
      gate.fill(random, size);
      reference.sigmoid_gate(in.data(), in.stride, gate.data(), want.data(), want.stride, rows, width);
      version.sigmoid_gate(in.data(), in.stride, gate.data(), gate.data(), gate.stride, rows, width);
      check_close(gate, want, [&](std::size_t r, std::size_t i) {
        return 9 * kUnit * std::abs(want.row(r)[i]) + 1.5e-36 * std::abs(in.row(r)[i]) + 1e-44;
      });
    }
  });
}

TEST_CASE("add_rows: it is exact") {
  for_every_version([](const Elementwise& version, const Elementwise& reference, std::size_t width,
                       std::size_t rows, std::size_t gap, std::mt19937& random) {
    Matrix in(rows, width, gap), got(rows, width, gap + 2);
    in.fill(random);
    got.fill(random);
    Matrix want = got;
    reference.add_rows(in.data(), in.stride, want.data(), want.stride, rows, width);
    version.add_rows(in.data(), in.stride, got.data(), got.stride, rows, width);
    check_close(got, want, [](std::size_t, std::size_t) { return 0.0; });
  });
}

TEST_CASE("elementwise: the chosen version is usable, and the table ends with the reference") {
  CHECK(elementwise().usable);
  CHECK(elementwise_versions().back().name == "reference");
  CHECK(elementwise_versions().back().usable);
}

}  // namespace elementwise_test
