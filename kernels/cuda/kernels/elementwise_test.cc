#include "kernels/cuda/kernels/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/device/device_test.h"
#include "kernels/operations/elementwise.h"

using namespace troupe::kernels;

namespace {

using DeviceFloats = cuda::DeviceCopy<float>;

std::vector<float> random_floats(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

const Elementwise& reference() { return elementwise_versions().back(); }

// Sums of `width` products in float32 in another order: relative error about width · 2^-24.
void check_near(const std::vector<float>& got, const std::vector<float>& want, std::size_t width) {
  const double tolerance = 4 * static_cast<double>(width) * std::pow(2.0, -24) + 1e-6;
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == doctest::Approx(want[i]).epsilon(tolerance));
}

const float poison = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_SUITE("cuda elementwise") {
  TEST_CASE("rms_norm and swiglu agree with the reference at all widths") {
    if (!cuda::have_device()) return;
    cuda::Stream stream;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const std::size_t width : {1, 31, 32, 33, 256, 257, 4864}) {
      const std::size_t rows = 37;
      const auto in = random_floats(rows * width * 2, random), weight = random_floats(width, random);
      std::vector<float> want(rows * width, poison);
      const DeviceFloats device_in(in), device_weight(weight), norm(want), glu(want);
      cuda::rms_norm(device_in.get(), 2 * width, device_weight.get(), 1e-6f, norm.get(), width, rows, width,
                     stream);
      cuda::swiglu(device_in.get(), 2 * width, glu.get(), width, rows, width, stream);
      reference().rms_norm(in.data(), 2 * width, weight.data(), 1e-6f, want.data(), width, rows, width);
      check_near(norm.host(stream), want, width);
      reference().swiglu(in.data(), 2 * width, want.data(), width, rows, width);
      check_near(glu.host(stream), want, 8);
    }
  }

  TEST_CASE("rope and add_rows agree with the reference in place") {
    if (!cuda::have_device()) return;
    cuda::Stream stream;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const std::size_t rows = 19, heads = 5, head_dim = 48, width = heads * head_dim;
    auto values = random_floats(rows * width, random);
    const auto in = random_floats(rows * width, random), angles = random_floats(rows * head_dim / 2, random);
    std::vector<float> cosines, sines;
    for (const float a : angles) cosines.push_back(std::cos(a)), sines.push_back(std::sin(a));
    const DeviceFloats device(values), device_in(in), c(cosines), s(sines);
    cuda::rope(device.get(), width, rows, heads, head_dim, c.get(), s.get(), stream);
    cuda::add_rows(device_in.get(), width, device.get(), width, rows, width, stream);
    reference().rope(values.data(), width, rows, heads, head_dim, cosines.data(), sines.data());
    reference().add_rows(in.data(), width, values.data(), width, rows, width);
    check_near(device.host(stream), values, 64);
  }
}
