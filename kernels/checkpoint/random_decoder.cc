// Makes a decoder with seeded random weights, for tests and benchmarks that need a model but no
// trained one.
#include <cmath>
#include <string_view>

#include "kernels/base/hash.h"
#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/checkpoint/model.h"
#include "kernels/checkpoint/random_values.h"

namespace troupe::kernels {
namespace {

struct Distribution {
  float mean, deviation;
};

// Matrices keep the length of the vector they are applied to. Matrices that add to the residual
// stream are smaller, so that it does not grow with depth. Biases and norms differ enough from 0
// and 1 that omitting one changes the result.
Distribution distribution(const DecoderConfig& config, const TensorSlot<DecoderWeights>& slot) {
  const std::string_view name = slot.name;
  if (slot.shape.size() == 1) return {name.ends_with(".bias") ? 0.0f : 1.0f, 0.2f};
  if (name == "model.embed_tokens.weight" && !config.tied_embeddings) return {0, 1};
  const bool residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
  const double scale = residual ? 1 / std::sqrt(2.0 * config.layers) : 1;
  return {0, static_cast<float>(scale / std::sqrt(static_cast<double>(slot.shape[1])))};
}

}  // namespace

DecoderModel random_decoder(const DecoderConfig& config, std::uint64_t seed) {
  DecoderModel model;
  model.config = config;
  model.weights = empty_weights(config);
  std::uint64_t stream = spread(seed);
  for (const auto& slot : decoder_tensors(config, model.weights)) {
    const Distribution drawn = distribution(config, slot);
    slot.values->resize(slot.size());
    for (std::size_t i = 0; i < slot.values->size(); ++i)
      (*slot.values)[i] = drawn.mean + drawn.deviation * nearly_normal(spread(stream + i));
    stream = spread(stream ^ 0x5bd1e995u);
  }
  model.version = decoder_version(config, model.weights);
  return model;
}

}  // namespace troupe::kernels
