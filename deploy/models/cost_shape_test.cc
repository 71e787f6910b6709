#include "deploy/models/cost_shape.h"

#include <doctest/doctest.h>

namespace troupe::deploy {
namespace {

TEST_CASE("cost shape: weights and keys and values have the engine's stored size") {
  kernels::DecoderConfig config;
  config.layers = 4;
  config.heads = 8;
  config.kv_heads = 2;
  config.head_dim = 16;
  const auto floats = cost_shape(config, kernels::WeightFormat::f32, kernels::KvFormat::f32, 3);
  CHECK(floats.weight_bytes == 4);
  CHECK(floats.rows_read == 3);
  CHECK(floats.kv_token_bytes() == 2 * 4 * 2 * 16 * 4);
  const auto bytes = cost_shape(config, kernels::WeightFormat::int8, kernels::KvFormat::f16, 3);
  CHECK(bytes.weight_bytes == 1);
  CHECK(bytes.linear == placement::Precision::int8);
  CHECK(bytes.kv_token_bytes() == 2 * 4 * 2 * 16 * 2);
  const auto halves = cost_shape(config, kernels::WeightFormat::bf16, kernels::KvFormat::bf16, 3);
  CHECK(halves.weight_bytes == 2);
  CHECK(halves.linear == placement::Precision::bf16);
}

}  // namespace
}  // namespace troupe::deploy
