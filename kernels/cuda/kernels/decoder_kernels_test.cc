#include "kernels/cuda/kernels/decoder_kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/operations/elementwise.h"

using namespace troupe::kernels;
using cuda::HalfFormat;

namespace {

std::vector<float> random_floats(std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

const Elementwise& reference() { return elementwise_versions().back(); }

// Maximum relative error of sums of `width` products in float32 in another order: about width ·
// 2^-24.
double summing_error(std::size_t width) { return 4 * static_cast<double>(width) * 0x1p-24 + 1e-6; }

void check_near(float got, float want, double relative) {
  REQUIRE(std::abs(double{got} - want) <= relative * std::abs(double{want}) + 1e-6);
}

float widened(HalfFormat format, std::uint16_t bits) {
  return format == HalfFormat::bf16 ? from_bf16(bits) : from_f16(bits);
}

}  // namespace

TEST_SUITE("cuda decoder kernels") {
  TEST_CASE("decoder kernels: RMS norms equal the reference: rounded, in float32, and in place") {
    if (!cuda::have_device()) return;
    cuda::Stream stream;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const std::uint32_t width : {8, 32, 40, 256, 1032, 4864}) {
      const std::uint32_t rows = 37;
      const auto in = random_floats(rows * width, random), weight = random_floats(width, random);
      std::vector<float> want(rows * width, std::numeric_limits<float>::quiet_NaN());
      const cuda::DeviceCopy<float> device_in(in), device_weight(weight), wide(want);
      reference().rms_norm(in.data(), width, weight.data(), 1e-6f, want.data(), width, rows, width);
      cuda::rms_norm(device_in.get(), device_weight.get(), 1e-6f, rows, width, wide.get(), stream);
      const auto floats = wide.host(stream);
      for (std::size_t i = 0; i < want.size(); ++i) check_near(floats[i], want[i], summing_error(width));
      for (const HalfFormat format : {HalfFormat::bf16, HalfFormat::f16}) {
        const cuda::DeviceCopy<std::uint16_t> narrow(std::vector<std::uint16_t>(want.size(), 0xffff));
        cuda::rms_norm_half(format, device_in.get(), device_weight.get(), 1e-6f, rows, width, narrow.get(),
                            stream);
        const auto halves = narrow.host(stream);
        for (std::size_t i = 0; i < want.size(); ++i)
          check_near(widened(format, halves[i]), want[i],
                     2 * cuda::unit_roundoff(format) + summing_error(width));
      }
      cuda::rms_norm(device_in.get(), device_weight.get(), 1e-6f, rows, width, device_in.get(), stream);
      REQUIRE(device_in.host(stream) == floats);
    }
  }

  TEST_CASE("decoder kernels: SwiGLU of rounded numbers equals the reference, rounded once more") {
    if (!cuda::have_device()) return;
    cuda::Stream stream;
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const HalfFormat format : {HalfFormat::bf16, HalfFormat::f16})
      for (const std::uint32_t width : {8, 264, 4864}) {
        const std::uint32_t rows = 5;
        const auto drawn = random_floats(std::size_t{rows} * 2 * width, random);
        std::vector<std::uint16_t> bits(drawn.size());
        cuda::round_to(format, drawn, bits.data());
        std::vector<float> in, want(std::size_t{rows} * width);
        for (const std::uint16_t number : bits) in.push_back(widened(format, number));
        reference().swiglu(in.data(), 2 * width, want.data(), width, rows, width);
        const cuda::DeviceCopy<std::uint16_t> gate_up(bits),
            out(std::vector<std::uint16_t>(want.size(), 0xffff));
        cuda::swiglu_half(format, gate_up.get(), rows, width, out.get(), stream);
        const auto halves = out.host(stream);
        for (std::size_t i = 0; i < want.size(); ++i)
          check_near(widened(format, halves[i]), want[i], 2 * cuda::unit_roundoff(format) + 1e-5);
      }
  }

  TEST_CASE("decoder kernels: rows of a list are rounded, some of them twice") {
    if (!cuda::have_device()) return;
    cuda::Stream stream;
    std::mt19937 random(3);
    for (const HalfFormat format : {HalfFormat::bf16, HalfFormat::f16})
      for (const std::uint32_t width : {8, 40, 1032}) {
        const auto states = random_floats(std::size_t{9} * width, random);
        const std::vector<std::uint32_t> rows{8, 0, 3, 3, 7};
        std::vector<std::uint16_t> want(rows.size() * width);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          const auto row = states.begin() + static_cast<std::ptrdiff_t>(rows[r] * width);
          cuda::round_to(format, std::vector<float>(row, row + width), want.data() + r * width);
        }
        const cuda::DeviceCopy<float> states_on(states);
        const cuda::DeviceCopy<std::uint32_t> rows_on(rows);
        const cuda::DeviceCopy<std::uint16_t> out(std::vector<std::uint16_t>(want.size(), 0xffff));
        cuda::round_rows(format, states_on.get(), rows_on.get(), 5, width, out.get(), stream);
        CHECK(out.host(stream) == want);
      }
  }
}
