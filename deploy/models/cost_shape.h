#pragma once
// Converts a decoder's configuration into the sizes from which the cost model predicts the time of
// a pass.
#include "kernels/decoder/decoder.h"
#include "placement/cost/cost_model.h"

namespace troupe::deploy {

// Bytes of a weight of a linear layer, and the kind of its multiply-adds.
struct WeightCost {
  double bytes;
  placement::Precision precision;
};
WeightCost weight_cost(kernels::WeightFormat weights);

// Attention over keys and values in bf16 may round to bf16 unless the weights are float32. The peak_bf16 of
// a device that only stores bf16 is that of float32.
placement::Precision attention_precision(kernels::WeightFormat weights, kernels::KvFormat kv);

// A readout scores `rows_read` rows of the vocabulary.
placement::ModelShape cost_shape(const kernels::DecoderConfig& config, kernels::WeightFormat weights,
                                 kernels::KvFormat kv, std::uint32_t rows_read);

}  // namespace troupe::deploy
