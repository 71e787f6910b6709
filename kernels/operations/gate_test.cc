#include "kernels/operations/gate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace troupe::kernels;

namespace {
namespace gate_test {

std::vector<float> some_floats(std::size_t count, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3f, size);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace gate_test
}  // namespace

TEST_SUITE("gates and norms") {
  using namespace gate_test;

  TEST_CASE(
      "silu rows: every version agrees with the reference, also far from zero, and leaves gaps between rows "
      "alone") {
    for (const std::size_t width : {1u, 15u, 16u, 64u, 67u}) {
      const std::size_t stride = width + 5;
      const std::vector<float> in = some_floats(7 * stride, 1, 40);
      std::vector<float> wanted = in;
      silu_rows_reference(wanted.data(), stride, 7, width);
      for (const Gates& version : gate_versions()) {
        if (!version.usable) continue;
        CAPTURE(version.name);
        std::vector<float> found = in;
        version.silu(found.data(), stride, 7, width);
        for (std::size_t i = 0; i < found.size(); ++i)
          CHECK(std::abs(found[i] - wanted[i]) <= 1e-6f * std::abs(wanted[i]) + 1e-30f);
      }
    }
  }

  TEST_CASE("gelu rows: every version is near the reference everywhere, and NaN stays NaN") {
    std::vector<float> in;
    for (int i = -3000; i <= 3000; ++i) in.push_back(static_cast<float>(i) * 0.01f);
    std::vector<float> wanted = in;
    gelu_rows_reference(wanted.data(), in.size(), 1, in.size());
    for (const Gates& version : gate_versions()) {
      if (!version.usable) continue;
      CAPTURE(version.name);
      std::vector<float> found = in;
      version.gelu(found.data(), in.size(), 1, in.size());
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::abs(double{found[i]} - wanted[i]) / (1 + std::abs(double{in[i]})));
      CHECK(worst < 2e-7);
      float nan = std::numeric_limits<float>::quiet_NaN();
      version.gelu(&nan, 1, 1, 1);
      CHECK(std::isnan(nan));
    }
  }

  TEST_CASE(
      "gated norm: every version agrees with the reference, with and without weight, bias and gate, in place "
      "too") {
    for (const std::size_t width : {1u, 15u, 16u, 64u, 67u, 512u})
      for (const int parts : {0, 1, 2, 3}) {
        const std::vector<float> in = some_floats(5 * width, 2, 3), gate = some_floats(5 * (width + 2), 3, 1);
        const std::vector<float> weight = some_floats(width, 4, 1), bias = some_floats(width, 5, 1);
        NormTask task{.in = in.data()};
        task.in_stride = task.out_stride = task.width = width;
        task.gate_stride = width + 2;
        task.rows = 5;
        task.epsilon = 1e-6f;
        if (parts & 1) task.gate = gate.data();
        if (parts & 2) task.weight = weight.data(), task.bias = bias.data();
        std::vector<float> wanted(5 * width);
        task.out = wanted.data();
        norm_rows_reference(task);
        for (const Gates& version : gate_versions()) {
          if (!version.usable) continue;
          CAPTURE(version.name);
          CAPTURE(width);
          std::vector<float> found = in;
          task.in = task.out = found.data();
          version.norm(task);
          task.in = in.data();
          for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 2e-5f);
        }
      }
  }
}
