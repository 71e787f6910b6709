#include <cmath>
#include <string_view>

#include "kernels/checkpoint/decoder_tensors.h"
#include "kernels/checkpoint/model.h"

namespace troupe::kernels {
namespace {

// Mixes a counter into 64 bits that look random (splitmix64, Steele et al. 2014). Values are a function of
// their index, so that a model of billions is made as fast as memory takes it.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Nearly normal, mean 0, deviation 1, never beyond 3.5: the sum of four uniform 16-bit numbers.
float nearly_normal(std::uint64_t bits) {
  const auto sum =
      static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0f) * (1.7320508f / 65536.0f);
}

struct Distribution {
  float mean, deviation;
};

// Matrices keep the length of what they are applied to; those that add to the residual stream are smaller, so
// that it does not grow with depth. Biases and norms differ enough from 0 and 1 to be missed when they are
// left out.
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
  std::uint64_t stream = mixed(seed);
  for (const auto& slot : decoder_tensors(config, model.weights)) {
    const Distribution drawn = distribution(config, slot);
    slot.values->resize(slot.size());
    for (std::size_t i = 0; i < slot.values->size(); ++i)
      (*slot.values)[i] = drawn.mean + drawn.deviation * nearly_normal(mixed(stream + i));
    stream = mixed(stream ^ 0x5bd1e995u);
  }
  model.version = decoder_version(config, model.weights);
  return model;
}

}  // namespace troupe::kernels
