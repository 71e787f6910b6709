#include "kernels/cuda/device/product.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/testing/device_test.h"

using namespace troupe::kernels;
using cuda::DeviceCopy;
using cuda::HalfFormat;
using cuda::ProductOut;

namespace {

float widened(HalfFormat format, std::uint16_t bits) {
  return format == HalfFormat::bf16 ? from_bf16(bits) : from_f16(bits);
}

struct Halves {
  std::vector<std::uint16_t> bits;
  std::vector<float> values;

  Halves(HalfFormat format, std::size_t count, std::mt19937& random) : bits(count), values(count) {
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    cuda::round_to(format, values, bits.data());
    for (std::size_t i = 0; i < count; ++i) values[i] = widened(format, bits[i]);
  }
};

// Compares with sums in double. A sum of n products of numbers near one has magnitude sqrt(n); its
// error is at most n times its float32 roundoff plus half a step of its own format.
void check_product(HalfFormat format, cuda::ProductShape shape, std::mt19937& random) {
  const std::size_t rows = shape.rows, inputs = shape.inputs, outputs = shape.outputs;
  const Halves in(format, rows * inputs, random), weight(format, outputs * inputs, random);
  const Halves before(format, rows * outputs, random), bias(format, outputs, random);
  const DeviceCopy<std::uint16_t> device_in(in.bits), device_weight(weight.bits);
  const DeviceCopy<float> device_bias(bias.values), wide(before.values);
  const DeviceCopy<std::uint16_t> narrow(before.bits);
  cuda::Stream stream;
  const bool is_half = shape.out == ProductOut::half;
  void* const out = is_half ? static_cast<void*>(narrow.get()) : wide.get();
  const auto product = cuda::make_product(format);
  product->run(shape, {device_in.get(), device_weight.get(), shape.bias ? device_bias.get() : nullptr, out},
               stream);
  const std::vector<std::uint16_t> halves = narrow.host(stream);
  const std::vector<float> floats = wide.host(stream);
  const double size = std::sqrt(static_cast<double>(inputs)) + 2;
  const double summing = 4 * size * static_cast<double>(inputs) * 0x1p-24;
  // Half a step of a number above a power of two.
  const double rounding = is_half ? 2 * unit_roundoff(format) : 0;
  for (std::size_t n = 0; n < rows * outputs; ++n) {
    double sum = shape.bias ? bias.values[n % outputs] : 0.0;
    if (shape.out == ProductOut::add_f32) sum += before.values[n];
    for (std::size_t i = 0; i < inputs; ++i)
      sum += double{in.values[n / outputs * inputs + i]} * double{weight.values[n % outputs * inputs + i]};
    const double got = is_half ? widened(format, halves[n]) : floats[n];
    REQUIRE(std::abs(got - sum) <= summing + rounding * std::abs(sum));
  }
}

}  // namespace

TEST_SUITE("cuda product") {
  TEST_CASE("product: every kind of product equals its definition, at few and many rows") {
    if (!cuda::have_device()) return;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const HalfFormat format : {HalfFormat::bf16, HalfFormat::f16})
      for (const std::uint32_t rows : {1, 7, 16, 65}) {
        check_product(format, {rows, 64, 24, ProductOut::half, false}, random);
        check_product(format, {rows, 72, 32, ProductOut::f32, false}, random);
        check_product(format, {rows, 8, 40, ProductOut::f32, true}, random);
        check_product(format, {rows, 40, 8, ProductOut::add_f32, false}, random);
        check_product(format, {rows, 48, 16, ProductOut::add_f32, true}, random);
      }
  }

  TEST_CASE("product: a recorded product uses the operands' contents at the time it runs") {
    if (!cuda::have_device()) return;
    const auto product = cuda::make_product(HalfFormat::bf16);
    const DeviceCopy<std::uint16_t> in(std::vector<std::uint16_t>(8, to_bf16(1))),
        two(std::vector<std::uint16_t>(8, to_bf16(2)));
    const DeviceCopy<std::uint16_t> weight(std::vector<std::uint16_t>(64, to_bf16(1)));
    const DeviceCopy<float> out(std::vector<float>(8, -1));
    cuda::Stream stream;
    const cuda::ProductShape shape{1, 8, 8, ProductOut::f32};
    product->run(shape, {in.get(), weight.get(), nullptr, out.get()}, stream);
    const cuda::Graph graph(stream, [&] {
      product->run(shape, {in.get(), weight.get(), nullptr, out.get()}, stream);
    });
    stream.copy(in.get(), two.get(), 16);
    graph.launch(stream);
    CHECK(out.host(stream) == std::vector<float>(8, 16));
  }
}
