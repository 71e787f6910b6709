#pragma once
// What a decoder's time depends on, as the cost model wants it.
#include "kernels/decoder/decoder.h"
#include "placement/cost/cost_model.h"

namespace troupe::deploy {

// A readout scores `rows_read` rows of the vocabulary.
placement::ModelShape cost_shape(const kernels::DecoderConfig& config, kernels::WeightFormat weights,
                                 kernels::KvFormat kv, std::uint32_t rows_read);

// What one token more takes in a pass of ordinary size, without what the pass takes for itself.
double us_per_token(const placement::DeviceProfile& device, const placement::ModelShape& shape);

}  // namespace troupe::deploy
