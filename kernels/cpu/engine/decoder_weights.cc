// Packs a decoder's weights for the CPU's matrix products, layer by layer, and drops the originals.
// Projections with the same input become one product.
#include "kernels/cpu/engine/decoder_weights.h"

#include <utility>

#include "kernels/base/check.h"

namespace troupe::kernels {
namespace {

// Appends the rows of `below` to `above`.
void append_rows(Matrix& above, Matrix below) {
  TROUPE_CHECK(above.columns == below.columns, "projections of one input must have the same columns");
  above.rows += below.rows;
  above.values.insert(above.values.end(), below.values.begin(), below.values.end());
}

// Packs the layers of one model side by side in one memory.
struct Packer {
  Linear::Form form;
  WeightMemory memory;

  Linear linear(Matrix weight, std::vector<float> bias) {
    return Linear(std::move(weight), std::move(bias), form, memory);
  }

  Linear qkv(LayerWeights& layer) {
    append_rows(layer.q, std::move(layer.k));
    append_rows(layer.q, std::move(layer.v));
    std::vector<float> bias = std::move(layer.q_bias);
    bias.insert(bias.end(), layer.k_bias.begin(), layer.k_bias.end());
    bias.insert(bias.end(), layer.v_bias.begin(), layer.v_bias.end());
    return linear(std::move(layer.q), std::move(bias));
  }

  Linear gate_up(LayerWeights& layer) {
    append_rows(layer.gate, std::move(layer.up));
    return linear(std::move(layer.gate), {});
  }
};

void check_shapes(const PackedLayer& layer, const DecoderConfig& c) {
  const auto is = [](const Linear& linear, std::uint32_t rows, std::uint32_t columns) {
    return linear.rows() == rows && linear.columns() == columns;
  };
  TROUPE_CHECK(is(layer.qkv, (c.heads + 2 * c.kv_heads) * c.head_dim, c.hidden),
               "q, k and v must match the configuration");
  TROUPE_CHECK(is(layer.o, c.hidden, c.heads * c.head_dim), "o must match the configuration");
  TROUPE_CHECK(is(layer.gate_up, 2 * c.intermediate, c.hidden), "gate and up must match the configuration");
  TROUPE_CHECK(is(layer.down, c.hidden, c.intermediate), "down must match the configuration");
  TROUPE_CHECK(layer.input_norm.size() == c.hidden && layer.post_attention_norm.size() == c.hidden,
               "norms must have one value per hidden feature");
  const std::size_t head_norm = c.qk_norm ? c.head_dim : 0;
  TROUPE_CHECK(layer.q_norm.size() == head_norm && layer.k_norm.size() == head_norm,
               "q and k norms must be per head");
}

}  // namespace

PackedDecoder pack_decoder(DecoderModel model, const Linear::Form& form) {
  const DecoderConfig& c = model.config;
  DecoderWeights& weights = model.weights;
  TROUPE_CHECK(weights.layers.size() == c.layers,
               "decoder: expected as many layers of weights as the configuration has");
  TROUPE_CHECK(c.kv_heads > 0 && c.heads % c.kv_heads == 0, "expected heads to be a multiple of kv_heads");
  TROUPE_CHECK(weights.final_norm.size() == c.hidden, "norms must have one value per hidden feature");
  PackedDecoder packed{
      c, {}, std::move(weights.embedding), std::move(weights.final_norm), std::move(weights.output)};
  for (const Matrix* table : {&std::as_const(packed.embedding), &packed.output_rows()}) {
    TROUPE_CHECK(table->rows == c.vocabulary && table->columns == c.hidden,
                 "expected one row of hidden features per token");
  }
  Packer packer{form, WeightMemory()};
  packed.layers.reserve(c.layers);
  for (LayerWeights& plain : weights.layers) {
    LayerWeights layer = std::move(plain);
    packed.layers.push_back({std::move(layer.input_norm), std::move(layer.post_attention_norm),
                             std::move(layer.q_norm), std::move(layer.k_norm), packer.qkv(layer),
                             packer.linear(std::move(layer.o), std::move(layer.o_bias)),
                             packer.gate_up(layer), packer.linear(std::move(layer.down), {})});
    check_shapes(packed.layers.back(), c);
  }
  return packed;
}

}  // namespace troupe::kernels
