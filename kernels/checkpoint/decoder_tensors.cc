// Lists all tensors of a decoder with their Hugging Face names, shapes and buffers. Reading,
// writing, random filling and version hashing walk this one list, so they agree.
#include "kernels/checkpoint/decoder_tensors.h"

#include <algorithm>
#include <span>

#include "kernels/base/check.h"
#include "kernels/checkpoint/hf_config.h"
#include "kernels/checkpoint/version_hash.h"

namespace troupe::kernels {
namespace {

Matrix shaped(std::uint32_t rows, std::uint32_t columns) { return {rows, columns, {}}; }

// Collects slots under a common prefix of their names.
template <class Weights>
class Table {
 public:
  template <class Vector>
  void vector(const std::string& name, Vector& values, std::uint64_t length) {
    slots_.push_back({prefix_ + name + suffix_, {length}, &values});
  }
  template <class AnyMatrix>
  void matrix(const std::string& name, AnyMatrix& matrix) {
    slots_.push_back({prefix_ + name + suffix_, {matrix.rows, matrix.columns}, &matrix.values});
  }
  void naming(std::string prefix, std::string suffix) {
    prefix_ = std::move(prefix);
    suffix_ = std::move(suffix);
  }
  std::vector<TensorSlot<Weights>> sorted() && {
    std::ranges::sort(slots_, {}, &TensorSlot<Weights>::name);
    return std::move(slots_);
  }

 private:
  std::string prefix_, suffix_;
  std::vector<TensorSlot<Weights>> slots_;
};

template <class Weights, class Layer>
void add_layer(const DecoderConfig& config, const std::string& prefix, Layer& layer, Table<Weights>& table) {
  table.naming(prefix, ".weight");
  table.vector("input_layernorm", layer.input_norm, config.hidden);
  table.vector("post_attention_layernorm", layer.post_attention_norm, config.hidden);
  table.matrix("self_attn.q_proj", layer.q);
  table.matrix("self_attn.k_proj", layer.k);
  table.matrix("self_attn.v_proj", layer.v);
  table.matrix("self_attn.o_proj", layer.o);
  table.matrix("mlp.gate_proj", layer.gate);
  table.matrix("mlp.up_proj", layer.up);
  table.matrix("mlp.down_proj", layer.down);
  if (config.qk_norm) {
    table.vector("self_attn.q_norm", layer.q_norm, config.head_dim);
    table.vector("self_attn.k_norm", layer.k_norm, config.head_dim);
  }
  table.naming(prefix, ".bias");
  if (config.qkv_bias) {
    table.vector("self_attn.q_proj", layer.q_bias, layer.q.rows);
    table.vector("self_attn.k_proj", layer.k_bias, layer.k.rows);
    table.vector("self_attn.v_proj", layer.v_bias, layer.v.rows);
  }
  if (config.o_bias()) table.vector("self_attn.o_proj", layer.o_bias, layer.o.rows);
}

template <class Weights>
std::vector<TensorSlot<Weights>> tensors_of(const DecoderConfig& config, Weights& weights) {
  TROUPE_CHECK(weights.layers.size() == config.layers,
               "decoder tensors: expected as many layers of weights as the configuration has");
  Table<Weights> table;
  table.naming("", ".weight");
  table.matrix("model.embed_tokens", weights.embedding);
  table.vector("model.norm", weights.final_norm, config.hidden);
  if (!config.tied_embeddings) table.matrix("lm_head", weights.output);
  for (std::size_t i = 0; i < weights.layers.size(); ++i)
    add_layer(config, "model.layers." + std::to_string(i) + ".", weights.layers[i], table);
  return std::move(table).sorted();
}

}  // namespace

DecoderWeights empty_weights(const DecoderConfig& config) {
  const std::uint32_t queries = config.heads * config.head_dim, keys = config.kv_heads * config.head_dim;
  LayerWeights layer;
  layer.q = shaped(queries, config.hidden);
  layer.k = layer.v = shaped(keys, config.hidden);
  layer.o = shaped(config.hidden, queries);
  layer.gate = layer.up = shaped(config.intermediate, config.hidden);
  layer.down = shaped(config.hidden, config.intermediate);
  DecoderWeights weights;
  weights.embedding = shaped(config.vocabulary, config.hidden);
  weights.layers.assign(config.layers, layer);
  if (!config.tied_embeddings) weights.output = shaped(config.vocabulary, config.hidden);
  return weights;
}

std::vector<TensorSlot<DecoderWeights>> decoder_tensors(const DecoderConfig& config,
                                                        DecoderWeights& weights) {
  return tensors_of(config, weights);
}

std::vector<TensorSlot<const DecoderWeights>> decoder_tensors(const DecoderConfig& config,
                                                              const DecoderWeights& weights) {
  return tensors_of(config, weights);
}

std::string decoder_version(const DecoderConfig& config, const DecoderWeights& weights) {
  VersionHash hash;
  hash.part("troupe decoder 1");
  hash.part(config_text(config, StoredAs::f32));
  for (const auto& tensor : decoder_tensors(config, weights)) {
    hash.part(tensor.name);
    hash.part(std::as_bytes(std::span(tensor.shape)));
    hash.part(std::as_bytes(std::span(*tensor.values)));
  }
  return hash.hex();
}

}  // namespace troupe::kernels
