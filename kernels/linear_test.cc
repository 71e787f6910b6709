#include "kernels/linear.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

namespace troupe::kernels {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// A layer beside the numbers that it was made of.
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
        linear(weight, bias) {}

  // The largest error of `out`, in units of what float32 sums of this length may lose.
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

TEST_CASE("a linear layer is the plain product plus the bias, for any number of rows") {
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

TEST_CASE("a linear layer writes its rows and nothing behind them") {
  const LinearCase layer(13, 7, true, 5);
  const auto in = random_values(9 * 7, 6);
  std::vector<float> out(10 * 13, 42.0f);
  layer.linear.run(in.data(), out.data(), 9);
  for (std::size_t i = 9 * 13; i < out.size(); ++i) CHECK(out[i] == 42.0f);
}

TEST_CASE("several threads may run one linear layer at once") {
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

TEST_CASE("a linear layer can be moved") {
  LinearCase layer(13, 7, false, 21);
  Linear moved(Matrix{1, 1, {1.0f}}, {});
  moved = std::move(layer.linear);
  const auto in = random_values(7, 23);
  std::vector<float> out(13, std::nanf(""));
  moved.run(in.data(), out.data(), 1);
  CHECK(moved.rows() == 13);
  CHECK(layer.error(in, out, 1) <= 1);
}

}  // namespace
}  // namespace troupe::kernels
