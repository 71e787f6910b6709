#include "kernels/cpu/products/linear.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "kernels/base/float_formats.h"
#include "kernels/testing/byte_products_test.h"

namespace troupe::kernels {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

Linear make_linear(Matrix weight, std::vector<float> bias, WeightFormat format = WeightFormat::f32,
                   const ByteProductVersion& bytes = byte_product_version()) {
  WeightMemory memory(1 << 16);
  return Linear(std::move(weight), std::move(bias), {.format = format, .bytes = bytes}, memory);
}

// A layer and the numbers that it was made of.
struct LinearCase {
  std::uint32_t rows, columns;
  Matrix weight;
  std::vector<float> bias;
  Linear linear;

  LinearCase(std::uint32_t rows_, std::uint32_t columns_, bool with_bias, std::uint64_t seed)
      : rows(rows_),
        columns(columns_),
        weight{rows, columns, random_values(std::size_t{rows} * columns, seed)},
        bias(with_bias ? random_values(rows, seed + 1) : std::vector<float>()),
        linear(make_linear(weight, bias)) {}

  // Returns the largest error of `out`, in units of what float32 sums of this length may lose.
  double error(const std::vector<float>& in, const std::vector<float>& out, std::size_t m) const {
    double worst = 0;
    for (std::size_t i = 0; i < m * rows; ++i) {
      const float* x = &in[i / rows * columns];
      const float* w = &weight.values[i % rows * columns];
      double sum = bias.empty() ? 0 : bias[i % rows], size = std::abs(sum);
      for (std::uint32_t k = 0; k < columns; ++k)
        sum += double{x[k]} * w[k], size += std::abs(double{x[k]} * w[k]);
      const double allowed = (columns + 1) * size * std::numeric_limits<float>::epsilon();
      const double off = std::abs(out[i] - sum);
      worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(worst, off / allowed);
    }
    return worst;
  }
};

TEST_CASE("linear: it is the plain product plus the bias, for any number of rows") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  const std::uint32_t shapes[][2] = {{1, 1}, {13, 7}, {64, 128}, {257, 33}};
  for (const auto& [rows, columns] : shapes) {
    for (const bool with_bias : {false, true}) {
      const LinearCase layer(rows, columns, with_bias, seed);
      CHECK(layer.linear.rows() == rows);
      CHECK(layer.linear.columns() == columns);
      for (const std::size_t m : {0, 1, 2, 3, 7, 8, 9, 31, 64, 100, 128, 129, 255, 256, 513, 1100}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(with_bias);
        CAPTURE(m);
        const auto in = random_values(m * columns, seed + m);
        std::vector<float> out(m * rows, std::nanf(""));
        layer.linear.run(in.data(), out.data(), m);
        CHECK(layer.error(in, out, m) <= 1);
      }
    }
  }
}

TEST_CASE("linear: it writes its rows and nothing behind them") {
  const LinearCase layer(13, 7, true, 5);
  const auto in = random_values(9 * 7, 6);
  std::vector<float> out(10 * 13, 42.0f);
  layer.linear.run(in.data(), out.data(), 9);
  for (std::size_t i = 9 * 13; i < out.size(); ++i) CHECK(out[i] == 42.0f);
}

TEST_CASE("linear: several threads may run one layer at once") {
  const LinearCase layer(65, 40, true, 11);
  constexpr std::size_t threads = 4, m = 37;
  std::vector<double> worst(threads, 0);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const auto in = random_values(m * 40, 100 * t + round);
        std::vector<float> out(m * 65, std::nanf(""));
        layer.linear.run(in.data(), out.data(), m);
        worst[t] = std::max(worst[t], layer.error(in, out, m));
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const double error : worst) CHECK(error <= 1);
}

TEST_CASE("linear: adding gives the previous values plus the layer's rows, in every format") {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::int8, WeightFormat::bf16}) {
    const Linear linear = make_linear({13, 7, random_values(13 * 7, 71)}, random_values(13, 72), format);
    const auto in = random_values(300 * 7, 73), before = random_values(300 * 13, 74);
    std::vector<float> rows(300 * 13), sums = before;
    linear.run(in.data(), rows.data(), 300);
    linear.add(in.data(), sums.data(), 300);
    double worst = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
      worst = std::max(worst, std::abs(double{sums[i]} - (double{before[i]} + double{rows[i]})));
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("linear: the parts of a layer's features give the whole, bit for bit") {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16}) {
    const Linear linear = make_linear({100, 30, random_values(100 * 30, 81)}, random_values(100, 83), format);
    REQUIRE(linear.parts_max() > 1);
    const auto in = random_values(9 * 30, 82);
    std::vector<float> whole(9 * 100), parted(9 * 100, std::nanf(""));
    linear.run(in.data(), whole.data(), 9);
    const std::size_t parts = linear.parts_max();
    for (std::size_t part = 0; part < parts; ++part) linear.run(in.data(), parted.data(), 9, {part, parts});
    CHECK(whole == parted);
  }
}

TEST_CASE("bf16 linear: the product of the rounded weights, within the rounding of its inputs") {
  // An input is rounded to eight significant bits, so it is off by at most 2^-8 of itself.
  constexpr std::uint32_t rows = 37, columns = 133, m = 70;
  Matrix weight{rows, columns, random_values(rows * columns, 91)};
  const std::vector<float> bias = random_values(rows, 92), in = random_values(m * columns, 93);
  std::vector<float> out(m * rows);
  make_linear(weight, bias, WeightFormat::bf16).run(in.data(), out.data(), m);
  for (float& value : weight.values) value = from_bf16(to_bf16(value));
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = bias[i % rows], size = std::abs(sum);
    for (std::uint32_t k = 0; k < columns; ++k) {
      const double term = double{in[i / rows * columns + k]} * weight.values[i % rows * columns + k];
      sum += term, size += std::abs(term);
    }
    worst = std::max(worst, std::abs(out[i] - sum) / size);
  }
  CHECK(worst <= std::ldexp(1.0, -8) + (columns + 1) * std::ldexp(1.0, -24));
}

TEST_CASE("linear: a layer can be moved") {
  LinearCase layer(13, 7, false, 21);
  Linear moved = make_linear(Matrix{1, 1, {1.0f}}, {});
  moved = std::move(layer.linear);
  const auto in = random_values(7, 23);
  std::vector<float> out(13, std::nanf(""));
  moved.run(in.data(), out.data(), 1);
  CHECK(moved.rows() == 13);
  CHECK(layer.error(in, out, 1) <= 1);
}

// An int8 layer, the numbers that it was made of, and how far from their exact product it may be.
struct Int8Case {
  Matrix weight;
  std::vector<float> bias;
  Linear linear;
  std::vector<double> steps;  // [row]: quantisation step of the weight

  Int8Case(Matrix weight_, std::vector<float> bias_,
           const ByteProductVersion& version = byte_product_version())
      : weight(std::move(weight_)),
        bias(std::move(bias_)),
        linear(make_linear(weight, bias, WeightFormat::int8, version)) {
    for (std::uint32_t n = 0; n < weight.rows; ++n) {
      double greatest = 0;
      for (std::uint32_t k = 0; k < weight.columns; ++k)
        greatest = std::max(greatest, std::abs(double{weight.values[n * weight.columns + k]}));
      steps.push_back(greatest / version.weight_limit());
    }
  }

  std::vector<float> run(const std::vector<float>& in) const {
    const std::size_t m = in.size() / weight.columns;
    std::vector<float> out(m * weight.rows + 1, std::nanf(""));
    linear.run(in.data(), out.data(), m);
    CHECK(std::isnan(out.back()));
    out.pop_back();
    return out;
  }

  // Largest errors of `out`. `worst`: in units of the maximum that rounding can cause, every value
  // off by half a step in the worst direction. `walk`: in standard deviations of independent errors
  // that are uniform in half a step, plus float32 rounding; an error of one step per value is
  // beyond many of them.
  struct Errors {
    double worst = 0, walk = 0;
  };
  Errors errors(const std::vector<float>& in, const std::vector<float>& out) const {
    Errors errors;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float* x = &in[i / weight.rows * weight.columns];
      const float* w = &weight.values[i % weight.rows * weight.columns];
      const auto [low, high] = std::minmax_element(x, x + weight.columns);
      const double in_step = (std::max(0.0, double{*high}) - std::min(0.0, double{*low})) / 255;
      const double step = steps[i % weight.rows];
      double sum = bias.empty() ? 0 : bias[i % weight.rows], size = std::abs(sum), most = 0, variance = 0;
      for (std::uint32_t k = 0; k < weight.columns; ++k) {
        const double from_weight = step * std::abs(x[k]), from_in = in_step * (std::abs(w[k]) + step / 2);
        sum += double{x[k]} * w[k], size += std::abs(double{x[k]} * w[k]);
        most += (from_weight + from_in) / 2;
        variance += (from_weight * from_weight + from_in * from_in) / 12;
      }
      // Scales and products of float32 round some ten times, each in proportion to the sum's size; a row that
      // counts as zeros is below 2^-92.
      const double rounding = size * std::ldexp(10.0, -24) + std::ldexp(size + 1, -92);
      const double off = std::abs(out[i] - sum);
      errors.worst = std::max(errors.worst, std::isnan(off) ? 1e9 : off / (most * 1.001 + rounding));
      errors.walk =
          std::max(errors.walk, std::isnan(off) ? 1e9 : (off - rounding) / std::sqrt(variance + 1e-300));
    }
    return errors;
  }
};

TEST_CASE("int8 linear: the error is what rounding to bytes explains, for any number of rows") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  const std::uint32_t shapes[][2] = {{1, 1}, {13, 7}, {64, 128}, {257, 33}, {48, 896}};
  for (const auto& [rows, columns] : shapes) {
    for (const bool with_bias : {false, true}) {
      const Int8Case layer({rows, columns, random_values(std::size_t{rows} * columns, seed)},
                           with_bias ? random_values(rows, seed + 1) : std::vector<float>());
      for (const std::size_t m : {0, 1, 2, 3, 7, 31, 63, 64, 65, 100, 129, 300}) {
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(m);
        const auto in = random_values(m * columns, seed + m);
        const auto [worst, walk] = layer.errors(in, layer.run(in));
        CHECK(worst <= 1);
        if (columns > 100) CHECK(walk <= 7);  // one sum in 10^11
      }
    }
  }
}

TEST_CASE("int8 linear: rows that are hard to quantise are handled") {
  constexpr std::uint32_t rows = 21, columns = 130;
  Matrix weight{rows, columns, random_values(rows * columns, 31)};
  const auto row_of = [&](std::uint32_t n) { return weight.values.begin() + n * columns; };
  std::fill_n(row_of(0), columns, 0.0f);
  std::fill_n(row_of(1), columns, -1.0f);
  std::fill_n(row_of(2), columns, 1e-44f);
  row_of(3)[5] = 1e6f;
  const Int8Case layer(weight, random_values(rows, 32));
  std::vector<float> in = random_values(10 * columns, 33);
  std::fill_n(in.begin(), columns, 0.0f);
  std::fill_n(in.begin() + columns, columns, 3.0f);
  std::fill_n(in.begin() + 2 * columns, columns, -3.0f);
  for (std::size_t k = 0; k < columns; ++k) in[3 * columns + k] = -std::abs(in[3 * columns + k]);
  for (std::size_t k = 0; k < columns; ++k) in[4 * columns + k] = std::abs(in[4 * columns + k]);
  in[5 * columns + 17] = 1e6f;
  in[6 * columns + 18] = -1e6f;
  for (std::size_t k = 0; k < columns; ++k) in[7 * columns + k] *= 1e-42f;
  const auto out = layer.run(in);
  CHECK(layer.errors(in, out).worst <= 1);
  for (std::uint32_t n = 0; n < rows; ++n) CHECK(out[n] == layer.bias[n]);  // the row of zeros is exact
}

TEST_CASE("int8 linear: the greatest sums do not saturate") {
  for_every_byte_product([](const ByteProductVersion& version) {
    for (const std::uint32_t columns : {2u, 64u, 896u, 4864u}) {
      CAPTURE(columns);
      Matrix weight{2, columns, std::vector<float>(2 * columns, 1.0f)};
      std::fill_n(weight.values.begin() + columns, columns, -1.0f);
      const Int8Case layer(weight, {}, version);
      const std::vector<float> in(9 * columns, 1.0f);
      CHECK(layer.errors(in, layer.run(in)).worst <= 1);
      const std::vector<float> negative(9 * columns, -1.0f);
      CHECK(layer.errors(negative, layer.run(negative)).worst <= 1);
    }
  });
}

TEST_CASE("int8 linear: a row that is not finite makes its own results NaN, and no others") {
  const Int8Case layer({5, 40, random_values(5 * 40, 41)}, random_values(5, 42));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    auto in = random_values(3 * 40, 43);
    const auto good = layer.run(in);
    in[40 + 7] = bad;
    const auto out = layer.run(in);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK((i / 5 == 1 ? std::isnan(out[i]) : out[i] == good[i]));
  }
  Matrix weight{5, 40, random_values(5 * 40, 41)};
  weight.values[2 * 40 + 3] = std::nanf("");
  const auto out = Int8Case(weight, {}).run(random_values(3 * 40, 43));
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i % 5 == 2));
}

TEST_CASE("int8 linear: a row is bit-equal whatever rows are beside it") {
  const Int8Case layer({75, 130, random_values(75 * 130, 51)}, random_values(75, 52));
  const auto in = random_values(140 * 130, 53);
  const auto together = layer.run(in);
  for (std::size_t r = 0; r < 140; ++r) {
    const auto alone = layer.run({in.begin() + r * 130, in.begin() + (r + 1) * 130});
    CHECK(std::memcmp(alone.data(), &together[r * 75], 75 * sizeof(float)) == 0);
  }
}

TEST_CASE(
    "int8 linear: weights have all eight bits where the machine sums byte products in 32 bits at once") {
  if (__builtin_cpu_supports("avx512vnni")) CHECK(byte_product_version().weight_limit() == 127);
}

TEST_CASE("int8 linear: versions that allow weights of the same size give the same bits") {
  const Matrix weight{75, 130, random_values(75 * 130, 53)};
  const auto in = random_values(140 * 130, 54), before = random_values(140 * 75, 55);
  const ByteProductVersion& plain = byte_product_versions().back();
  const auto expected = Int8Case(weight, {}, plain).run(in);
  for_every_byte_product([&](const ByteProductVersion& version) {
    const Int8Case layer(weight, {}, version);
    const auto found = layer.run(in);
    std::vector<float> sums = before;
    layer.linear.add(in.data(), sums.data(), 140);
    for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == before[i] + found[i]);
    if (version.weight_limit() == plain.weight_limit())
      CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
    else
      CHECK(layer.errors(in, found).worst <= 1);
  });
}

TEST_CASE("int8 linear: several threads may run one layer at once") {
  const Int8Case layer({65, 40, random_values(65 * 40, 61)}, {});
  const auto in = random_values(37 * 40, 62);
  const auto alone = layer.run(in);
  std::vector<int> same(4);
  std::vector<std::thread> running;
  for (int& count : same)
    running.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        std::vector<float> out(37 * 65);
        layer.linear.run(in.data(), out.data(), 37);
        count += out == alone;
      }
    });
  for (std::thread& thread : running) thread.join();
  CHECK(same == std::vector<int>(4, 20));
}

}  // namespace
}  // namespace troupe::kernels
