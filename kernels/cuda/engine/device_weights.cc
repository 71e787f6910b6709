// Uploads a decoder's weights to the device, matrices in 16 bits, and its table of rotary angles.
// All executors share them; projections with the same input become one matrix.
#include "kernels/cuda/engine/device_weights.h"

#include <cmath>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels::cuda {
namespace {

// Computes angles in double, as all backends do: a float32 angle is off by about 1e-3 at position
// 20,000.
std::vector<float> rotations(const DecoderConfig& config) {
  const std::vector<double> frequencies = rope_frequencies(config);
  std::vector<float> pairs;
  pairs.reserve(std::size_t{config.positions_max} * frequencies.size() * 2);
  for (std::uint32_t p = 0; p < config.positions_max; ++p)
    for (const double frequency : frequencies) {
      pairs.push_back(static_cast<float>(std::cos(p * frequency)));
      pairs.push_back(static_cast<float>(std::sin(p * frequency)));
    }
  return pairs;
}

void check_shapes(const LayerWeights& layer, const DecoderConfig& c) {
  const auto is = [](const Matrix& matrix, std::uint32_t rows, std::uint32_t columns) {
    return matrix.rows == rows && matrix.columns == columns &&
           matrix.values.size() == std::size_t{rows} * columns;
  };
  const std::uint32_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  TROUPE_CHECK(is(layer.q, q, c.hidden) && is(layer.k, kv, c.hidden) && is(layer.v, kv, c.hidden),
               "q, k, v fit the configuration");
  TROUPE_CHECK(is(layer.o, c.hidden, q), "o fits the configuration");
  TROUPE_CHECK(is(layer.gate, c.intermediate, c.hidden) && is(layer.up, c.intermediate, c.hidden),
               "gate and up fit the configuration");
  TROUPE_CHECK(is(layer.down, c.hidden, c.intermediate), "down fits the configuration");
  TROUPE_CHECK(layer.input_norm.size() == c.hidden && layer.post_attention_norm.size() == c.hidden,
               "norms have one value per hidden feature");
  const std::size_t head_norm = c.qk_norm ? c.head_dim : 0, bias = c.qkv_bias ? 1 : 0;
  TROUPE_CHECK(layer.q_norm.size() == head_norm && layer.k_norm.size() == head_norm,
               "q and k norms are per head");
  TROUPE_CHECK(
      layer.q_bias.size() == bias * q && layer.k_bias.size() == bias * kv && layer.v_bias.size() == bias * kv,
      "q, k and v have a bias, or none has");
  TROUPE_CHECK(layer.o_bias.size() == (c.o_bias() ? c.hidden : 0), "o's bias fits the configuration");
}

DeviceLayer upload_layer(LayerWeights layer, WeightUploader& uploader) {
  DeviceLayer on;
  on.qkv = uploader.halves(std::move(layer.q), std::move(layer.k), std::move(layer.v));
  on.o = uploader.halves(std::move(layer.o));
  on.gate_up = uploader.halves(std::move(layer.gate), std::move(layer.up));
  on.down = uploader.halves(std::move(layer.down));
  on.qkv_bias = uploader.floats(layer.q_bias, layer.k_bias, layer.v_bias);
  on.o_bias = uploader.floats(layer.o_bias);
  on.input_norm = uploader.floats(layer.input_norm);
  on.post_attention_norm = uploader.floats(layer.post_attention_norm);
  on.q_norm = uploader.floats(layer.q_norm);
  on.k_norm = uploader.floats(layer.k_norm);
  return on;
}

}  // namespace

std::shared_ptr<const DeviceWeights> upload_weights(DecoderModel model, HalfFormat half) {
  auto on = std::make_shared<DeviceWeights>();
  on->config = model.config;
  on->half = half;
  DecoderWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == model.config.layers,
               "the weights have as many layers as the configuration says");
  TROUPE_CHECK(weights.final_norm.size() == model.config.hidden, "norms have one value per hidden feature");
  for (const Matrix* table : {&weights.embedding, &weights.output})
    TROUPE_CHECK(table == &weights.output && model.config.tied_embeddings
                     ? table->rows == 0
                     : table->rows == model.config.vocabulary && table->columns == model.config.hidden,
                 "one row of hidden features per token");
  WeightUploader uploader(half == HalfFormat::bf16 ? RowFormat::bf16 : RowFormat::f16, on->memory);
  for (LayerWeights& layer : weights.layers) {
    check_shapes(layer, model.config);
    on->layers.push_back(upload_layer(std::move(layer), uploader));
  }
  on->embedding = uploader.padded(std::move(weights.embedding));
  on->output = weights.output.rows == 0 ? on->embedding : uploader.padded(std::move(weights.output));
  on->final_norm = uploader.floats(weights.final_norm);
  on->rotations = uploader.floats(rotations(model.config));
  return on;
}

}  // namespace troupe::kernels::cuda
