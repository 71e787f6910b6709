// Converts a decoder's configuration into the sizes from which the cost model predicts the time of
// a pass.
#include "deploy/models/cost_shape.h"

namespace troupe::deploy {

using placement::Precision;

WeightCost weight_cost(kernels::WeightFormat weights) {
  switch (weights) {
    case kernels::WeightFormat::int8:
      return {1, Precision::int8};
    case kernels::WeightFormat::bf16:
      return {2, Precision::bf16};
    case kernels::WeightFormat::f32:
      break;
  }
  return {4, Precision::f32};
}

Precision attention_precision(kernels::WeightFormat weights, kernels::KvFormat kv) {
  return weights != kernels::WeightFormat::f32 && kv == kernels::KvFormat::bf16 ? Precision::bf16
                                                                                : Precision::f32;
}

placement::ModelShape cost_shape(const kernels::DecoderConfig& config, kernels::WeightFormat weights,
                                 kernels::KvFormat kv, std::uint32_t rows_read) {
  const WeightCost linear = weight_cost(weights);
  return {.layers = config.layers,
          .hidden = config.hidden,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .intermediate = config.intermediate,
          .rows_read = rows_read,
          .weight_bytes = linear.bytes,
          .kv_bytes = static_cast<double>(kernels::value_bytes(kv)),
          .linear = linear.precision,
          .attention = attention_precision(weights, kv)};
}

}  // namespace troupe::deploy
