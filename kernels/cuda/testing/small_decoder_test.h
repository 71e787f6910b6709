#pragma once
// Helpers for tests of the decoder on a device: a small model, its rounded weights, pages, and the
// tolerance of its answers compared with the CPU's.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/engine/decoder.h"

namespace troupe::kernels::cuda {

// Returns the model with its matrices rounded, so that both decoders have the same weights.
inline DecoderModel rounded(DecoderModel model, HalfFormat half) {
  const auto round = [&](Matrix& matrix) {
    std::vector<std::uint16_t> bits(matrix.values.size());
    round_to(half, matrix.values, bits.data());
    for (std::size_t i = 0; i < bits.size(); ++i)
      matrix.values[i] = half == HalfFormat::bf16 ? from_bf16(bits[i]) : from_f16(bits[i]);
  };
  for (LayerWeights& layer : model.weights.layers)
    for (Matrix* m : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) round(*m);
  round(model.weights.embedding);
  round(model.weights.output);
  return model;
}

// Pages on the device; every number is NaN.
struct DevicePages {
  PageLayout layout;
  std::vector<DeviceMemory> memory;

  std::vector<std::byte*> take(std::size_t tokens) {
    std::vector<std::byte*> taken;
    Stream stream;
    const std::vector<std::byte> poison(layout.page_bytes(), std::byte{0xff});
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      taken.push_back(memory.emplace_back(layout.page_bytes()).data());
      stream.upload(taken.back(), poison.data(), poison.size());
    }
    stream.synchronize();
    return taken;
  }
};

// Returns the maximum error of a pass with 16-bit activations, compared with float32 over the same
// weights, relative to the largest logit.
//
// A layer rounds (u: unit roundoff, half a step): two norms, gate, up and the result of SwiGLU, in
// the weights' format; queries and the result of attention, in bf16; keys, values and attention
// weights, in the keys' format. A rounding moves a number by up to u of itself, uniformly: its
// deviation is u / sqrt(3). In a product the inputs' errors add up as the inputs do, so a result
// deviates by as much of itself. Roundings are independent, so their squares add up over stages and
// layers. SwiGLU and softmax are products of two values that both carry errors, so the error that a
// layer inherits at most doubles once: the factor 2. Four deviations exceed the worst of several
// hundred logits.
inline double tolerance(const DecoderConfig& config, const CudaDecoderOptions& options) {
  const double kv = options.kv == KvFormat::bf16 ? 0x1p-9 : 0x1p-12, bf16 = 0x1p-9;
  const double half = unit_roundoff(options.weights);
  const double of_layer = (5 * half * half + 2 * bf16 * bf16 + 3 * kv * kv) / 3;
  return 2 * 4 * std::sqrt(config.layers * of_layer) + 1e-5;
}

inline CudaDecoderOptions small_options() {
  return {.page_tokens = 4, .rows_max = 600, .keys_max = 4000, .logits_max = 600, .plan_bytes_max = 1 << 20};
}

inline DecoderConfig small_config(Family family = Family::qwen2) {
  DecoderConfig c;
  c.family = family;
  c.layers = 2, c.hidden = 40, c.heads = 4, c.kv_heads = 2, c.head_dim = 32, c.intermediate = 48;
  c.vocabulary = 97, c.positions_max = 400;
  c.qkv_bias = family == Family::qwen2, c.qk_norm = family == Family::qwen3;
  c.tied_embeddings = true;
  return c;
}

}  // namespace troupe::kernels::cuda
