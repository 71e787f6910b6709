#include "kernels/cpu/products/product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/float_formats.h"

namespace troupe::kernels {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::uint32_t n = 1, k = 1;  // rows and columns of the weight
  bool bias = true, add = false;
  std::size_t gap = 0;     // floats between rows of the input and of the output, NaN
  std::size_t offset = 0;  // floats before the first row, so that it is not aligned
  WeightFormat format = WeightFormat::f32;
};

// A weight with inputs for it; every allocation is exact, so that the sanitizer sees reads past it.
struct Case {
  template <class Draw>
  Case(const Shape& shape_, std::size_t m_, Draw draw) : shape(shape_), m(m_), weight{shape.n, shape.k, {}} {
    weight.values.resize(std::size_t{shape.n} * shape.k);
    for (float& value : weight.values) value = draw();
    bias.resize(shape.bias ? shape.n : 0);
    for (float& value : bias) value = draw();
    in = spread(shape.k, draw);
    before = shape.add ? spread(shape.n, draw) : spread(shape.n, [] { return nan; });
  }

  template <class Draw>
  std::vector<float> spread(std::size_t width, Draw draw) const {
    const std::size_t stride = width + shape.gap;
    std::vector<float> values(shape.offset + (m == 0 ? 0 : (m - 1) * stride + width), nan);
    for (std::size_t i = 0; i < m * width; ++i)
      values[shape.offset + i / width * stride + i % width] = draw();
    return values;
  }

  ProductTask task(std::vector<float>& out) const {
    return {.in = in.data() + shape.offset,
            .in_stride = shape.k + shape.gap,
            .out = out.data() + shape.offset,
            .out_stride = shape.n + shape.gap,
            .rows = m,
            .add = shape.add};
  }

  // Returns the whole output after `version` has run, gaps included.
  std::vector<float> run(const ProductVersion& version) const {
    WeightMemory memory(0);
    const PackedMatrix packed(weight, bias, version.panel_width, memory, shape.format);
    std::vector<float> out = before;
    version.run(packed, task(out));
    return out;
  }

  // Rounds the weight and, for a version that does so, the input as the product does.
  void round_as(const ProductVersion& version) {
    if (shape.format != WeightFormat::bf16) return;
    const auto round = [](float value) { return from_bf16(to_bf16(value)); };
    std::ranges::transform(weight.values, weight.values.begin(), round);
    if (version.rounds_input) std::ranges::transform(in, in.begin(), round);
  }

  Shape shape;
  std::size_t m;
  Matrix weight;
  std::vector<float> bias, in, before;
};

const ProductVersion& reference() { return product_versions().back(); }

// Small whole numbers: float32 sums of them are exact in any order.
auto whole_numbers(std::uint64_t seed) {
  return [random = std::mt19937_64(seed)]() mutable { return float(random() % 9) - 4; };
}
auto normal_numbers(std::uint64_t seed) {
  return [random = std::mt19937_64(seed), normal = std::normal_distribution<float>()]() mutable {
    return normal(random);
  };
}

// Returns true if both are bit-equal, NaN where nothing was written.
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

template <class Check>
void for_every_version(Check check) {
  for (const ProductVersion& version : product_versions()) {
    const std::string name(version.name);
    if (!version.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    CAPTURE(name);
    for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16}) {
      CAPTURE(format_name(format));
      check(version, format);
    }
  }
}

void check_exact(const ProductVersion& version, const Shape& shape, std::size_t m) {
  CAPTURE(shape.n);
  CAPTURE(shape.k);
  CAPTURE(m);
  const Case c(shape, m, whole_numbers(shape.n * 31 + shape.k * 7 + m));
  CHECK(same(c.run(version), c.run(reference())));
}

TEST_CASE("product: the reference is the plain product, plus the bias, plus the previous values") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for (const bool add : {false, true}) {
    const Case c({.n = 11, .k = 5, .add = add, .gap = 2}, 3, whole_numbers(seed));
    const std::vector<float> out = c.run(reference());
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t n = 0; n < 11; ++n) {
        float sum = c.bias[n] + (add ? c.before[r * 13 + n] : 0);
        for (std::size_t k = 0; k < 5; ++k) sum += c.in[r * 7 + k] * c.weight.values[n * 5 + k];
        CHECK(out[r * 13 + n] == sum);
      }
  }
}

TEST_CASE("product: whole numbers are exact for sizes around every tile, vector and panel") {
  for_every_version([](const ProductVersion& version, WeightFormat format) {
    for (const std::uint32_t n : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 160, 200})
      for (const std::uint32_t k : {1, 2, 3, 4, 5, 7, 8, 9, 33})
        for (const std::size_t m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 23, 25, 41})
          check_exact(version,
                      {.n = n, .k = k, .bias = n % 2 == 0, .gap = m % 3, .offset = k % 4, .format = format},
                      m);
  });
}

TEST_CASE("product: whole numbers are exact over several blocks of rows and parts of the columns") {
  for_every_version([](const ProductVersion& version, WeightFormat format) {
    for (const std::uint32_t k : {1023, 1024, 1025, 2500})
      for (const std::size_t m : {1, 4, 6, 7, 12, 130, 275})
        for (const bool add : {false, true})
          check_exact(version, {.n = 70, .k = k, .add = add, .gap = 1, .format = format}, m);
    check_exact(version, {.n = 32, .k = 24, .format = format}, 12000);
  });
}

// Returns the largest error of `got`, in units of what rounding a sum explains, plus `input_error`
// of each input's relative error.
double worst_error(const Case& c, const std::vector<float>& got, double input_error = 0) {
  const std::size_t n = c.shape.n, k = c.shape.k;
  // The rounding of a sum of t terms grows as sqrt(t) u (Higham and Mary 2019; 6 standard deviations)
  // times the sum of the magnitudes; the result is rounded once more.
  const double relative = (6 * std::sqrt(static_cast<double>(k) + 2) + 1) * std::ldexp(1.0, -24);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double size = std::abs(c.before[i]) + std::abs(c.bias[i % n]), want = double{c.before[i]} + c.bias[i % n];
    for (std::size_t j = 0; j < k; ++j) {
      const double term = double{c.in[i / n * k + j]} * c.weight.values[i % n * k + j];
      want += term, size += std::abs(term);
    }
    const double share = std::abs(double{got[i]} - want) / ((relative + input_error) * size);
    worst = std::isnan(share) ? INFINITY : std::max(worst, share);
  }
  return worst;
}

TEST_CASE("product: normal numbers are within the rounding of their sums") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for_every_version([&](const ProductVersion& version, WeightFormat format) {
    for (const auto& [n, k, m] : {std::array{96, 896, 41}, {80, 4864, 5}, {257, 256, 100}, {33, 17, 13}}) {
      Case c({.n = std::uint32_t(n), .k = std::uint32_t(k), .add = true, .format = format}, m,
             normal_numbers(seed));
      const std::vector<float> got = c.run(version);
      c.round_as(version);
      CHECK(worst_error(c, got) <= 1);
    }
  });
}

TEST_CASE("product: an input that is rounded to bf16 is off by at most the half of its last bit") {
  // bf16 has eight significant bits, so that rounding changes an input x by at most 2^-8 |x| and an
  // output by at most 2^-8 · Σ |x w|. If no input were rounded, the error would be 10^3 times less.
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  for_every_version([&](const ProductVersion& version, WeightFormat format) {
    if (format != WeightFormat::bf16) return;
    Case c({.n = 70, .k = 300, .add = true, .format = format}, 20, normal_numbers(seed));
    const std::vector<float> got = c.run(version);
    for (float& value : c.weight.values) value = from_bf16(to_bf16(value));
    CHECK(worst_error(c, got, std::ldexp(1.0, -8)) <= 1);
    CHECK((worst_error(c, got) <= 1) == !version.rounds_input);
  });
}

TEST_CASE("product: a range of panels writes only its columns, and all ranges together are the product") {
  for_every_version([](const ProductVersion& version, WeightFormat format) {
    for (const std::size_t m : {1, 3, 10, 30}) {
      const Case c({.n = 333, .k = 50, .gap = 3, .format = format}, m, normal_numbers(m));
      WeightMemory memory(0);
      const PackedMatrix packed(c.weight, c.bias, version.panel_width, memory, format);
      const std::size_t panels = packed.panels(), third = panels / 3;
      std::vector<float> out = c.before;
      ProductTask task = c.task(out);
      task.panel_begin = third, task.panel_end = 2 * third;
      version.run(packed, task);
      const std::size_t begin = third * version.panel_width, end = 2 * third * version.panel_width;
      bool only = true;
      for (std::size_t i = 0; i < m * 336 - 3; ++i)
        only = only && std::isnan(out[i]) == (i % 336 < begin || i % 336 >= end);
      CHECK(only);
      ProductTask first = task, last = task;
      first.panel_begin = 0, first.panel_end = third;
      last.panel_begin = 2 * third, last.panel_end = panels + 5;
      std::thread other([&] { version.run(packed, first); });
      version.run(packed, last);
      other.join();
      CHECK(same(out, c.run(version)));
      task.panel_begin = task.panel_end = panels;
      std::vector<float> untouched = c.before;
      task.out = untouched.data();
      version.run(packed, task);
      CHECK(same(untouched, c.before));
    }
  });
}

TEST_CASE("product: a row's result is bit-equal whatever rows are multiplied with it") {
  for_every_version([](const ProductVersion& version, WeightFormat format) {
    const Case c({.n = 100, .k = 2101, .format = format}, 150, normal_numbers(5));
    const std::vector<float> all = c.run(version);
    WeightMemory memory(0);
    const PackedMatrix packed(c.weight, c.bias, version.panel_width, memory, format);
    for (const std::size_t count : {1, 2, 3, 5, 6, 7, 12, 13, 40}) {
      std::vector<float> some(count * 100, nan);
      const std::size_t first = 150 - count;
      version.run(packed, {.in = c.in.data() + first * 2101,
                           .in_stride = 2101,
                           .out = some.data(),
                           .out_stride = 100,
                           .rows = count});
      CHECK(same(some, std::vector<float>(all.begin() + std::ptrdiff_t(first * 100), all.end())));
    }
  });
}

TEST_CASE("product: an infinite or NaN input shows in its own row only") {
  for_every_version([](const ProductVersion& version, WeightFormat format) {
    for (const std::size_t m : {3, 20, 50})
      for (const float bad : {nan, std::numeric_limits<float>::infinity()}) {
        Case c({.n = 40, .k = 9, .bias = false, .format = format}, m, whole_numbers(1));
        c.in[2 * 9 + 8] = bad;
        const std::vector<float> out = c.run(version);
        for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isfinite(out[i]) == (i / 40 != 2));
      }
  });
}

TEST_CASE("product: a packed weight knows its size, and its padding rows are zero") {
  const Matrix weight{5, 3, std::vector<float>(15, 2.0f)};
  WeightMemory memory(0);
  const PackedMatrix packed(weight, {}, 4, memory);
  CHECK(packed.rows() == 5);
  CHECK(packed.columns() == 3);
  CHECK(packed.panels() == 2);
  CHECK(packed.bytes() == 2 * 4 * (3 + 1) * sizeof(float));
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t lane = 0; lane < 4; ++lane)
      CHECK(packed.panel(1)[k * 4 + lane] == (lane == 0 ? 2.0f : 0.0f));
  for (std::size_t lane = 0; lane < 8; ++lane) CHECK(packed.bias(0)[lane] == 0.0f);
}

TEST_CASE("product: a weight packed in bf16 has two columns in each word, rounded to nearest") {
  // 1 + 2^-8 is a tie between 1 and 1 + 2^-7, and 1 + 3·2^-8 one between 1 + 2^-7 and 1 + 2^-6.
  const Matrix weight{2, 3, {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, -5.0f, 1.0f + 0x1.01p-8f, nan, 3e38f}};
  WeightMemory memory(0);
  const PackedMatrix packed(weight, {}, 4, memory, WeightFormat::bf16);
  CHECK(packed.format() == WeightFormat::bf16);
  CHECK(packed.words() == 2);
  CHECK(packed.bytes() == 4 * (2 + 1) * sizeof(float));
  CHECK(packed.value(0, 0) == 1.0f);
  CHECK(packed.value(0, 1) == 1.0f + 0x1p-6f);
  CHECK(packed.value(0, 2) == -5.0f);
  CHECK(packed.value(1, 0) == 1.0f + 0x1p-7f);
  CHECK(std::isnan(packed.value(1, 1)));
  CHECK(packed.value(1, 2) == doctest::Approx(3e38f).epsilon(0.004));
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[0]) == 0x3f823f80u);
  CHECK(std::bit_cast<std::uint32_t>(packed.panel(0)[4]) == 0x0000c0a0u);
  CHECK(packed.panel(0)[2] == 0.0f);
}

TEST_CASE("product: the chosen version is the first usable one of the table") {
  for (const ProductVersion& version : product_versions())
    if (version.usable) {
      CHECK(version.name == product_version().name);
      break;
    }
  CHECK(reference().usable);
}

}  // namespace
}  // namespace troupe::kernels
