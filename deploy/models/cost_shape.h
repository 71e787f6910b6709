#pragma once
// Converts a decoder's configuration into the sizes from which the cost model predicts the time of
// a pass.
#include "kernels/decoder/decoder.h"
#include "placement/cost/cost_model.h"

namespace troupe::deploy {

// A readout scores `rows_read` rows of the vocabulary.
// Bytes of a weight of a linear layer, and the kind of its multiply-adds.
struct WeightCost {
  double bytes;
  placement::Precision precision;
};
WeightCost weight_cost(kernels::WeightFormat weights);

placement::ModelShape cost_shape(const kernels::DecoderConfig& config, kernels::WeightFormat weights,
                                 kernels::KvFormat kv, std::uint32_t rows_read);

}  // namespace troupe::deploy
