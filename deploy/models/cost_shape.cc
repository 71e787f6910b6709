// Converts a decoder's configuration into the sizes from which the cost model predicts the time of
// a pass.
#include "deploy/models/cost_shape.h"

namespace troupe::deploy {

using placement::Precision;

placement::ModelShape cost_shape(const kernels::DecoderConfig& config, kernels::WeightFormat weights,
                                 kernels::KvFormat kv, std::uint32_t rows_read) {
  const bool bytes = weights == kernels::WeightFormat::int8;
  return {.layers = config.layers,
          .hidden = config.hidden,
          .heads = config.heads,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .intermediate = config.intermediate,
          .rows_read = rows_read,
          .weight_bytes = bytes ? 1.0 : 4.0,
          .kv_bytes = static_cast<double>(kernels::value_bytes(kv)),
          .linear = bytes ? Precision::int8 : Precision::f32,
          .attention = Precision::f32};
}

}  // namespace troupe::deploy
