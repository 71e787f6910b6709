#include <doctest/doctest.h>

#include <cmath>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {
namespace {

DecoderConfig config_of(std::uint32_t head_dim, double theta, RopeScaling scaling = {}) {
  DecoderConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  config.rope_scaling = scaling;
  return config;
}

TEST_CASE("rope frequencies: they fall from 1 by powers of theta") {
  const std::vector<double> f = rope_frequencies(config_of(4, 10000));
  REQUIRE(f.size() == 2);
  CHECK(f[0] == 1);
  CHECK(f[1] == doctest::Approx(0.01).epsilon(1e-14));
}

TEST_CASE("rope frequencies: linear scaling divides every frequency") {
  const std::vector<double> f = rope_frequencies(config_of(4, 10000, {RopeScaling::Kind::linear, 4}));
  CHECK(f[0] == 0.25);
  CHECK(f[1] == doctest::Approx(0.0025).epsilon(1e-14));
}

// Llama 3.1's own configuration; the values were computed from the published rule, independently of
// this code.
TEST_CASE("rope frequencies: Llama 3 scaling keeps short waves, stretches long ones and blends between") {
  const std::vector<double> f =
      rope_frequencies(config_of(128, 500000, {RopeScaling::Kind::llama3, 8, 1, 4, 8192}));
  REQUIRE(f.size() == 64);
  CHECK(f[0] == 1);
  CHECK(f[28] == doctest::Approx(0.0032114459947525913).epsilon(1e-12));
  CHECK(f[29] == doctest::Approx(0.002166570763503359).epsilon(1e-12));
  CHECK(f[34] == doctest::Approx(0.00017850781276799638).epsilon(1e-12));
  CHECK(f[35] == doctest::Approx(9.556212353964683e-05).epsilon(1e-12));
  CHECK(f[63] == doctest::Approx(3.068925988914511e-07).epsilon(1e-12));
}

}  // namespace
}  // namespace troupe::kernels
