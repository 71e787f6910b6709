#pragma once
// Implements the HSTU family on a device, with the plans, pages and mathematics of kernels/hstu.
// Attention uses the decoders' kernels with the policy Silu. The host finds the steps of time
// buckets along a row's keys once for all layers and heads (kernels/hstu/pair_bias.h) and uploads
// them with the plan. Passes are not recorded as graphs, because they are long.
#include <memory>
#include <string>

#include "kernels/cuda/engine/ranker_options.h"
#include "kernels/hstu/hstu.h"

namespace troupe::kernels::cuda {

// Returns an empty string if there are kernels for the model, else what is wrong and what was
// expected.
std::string cuda_hstu_fault(const HstuConfig& config, const CudaRankerOptions& options);

// Requires a configuration and options without a fault. Pages of requests are device addresses.
// Measured times are device seconds, except for planning. A pass throws DeviceError on failure.
std::unique_ptr<Executor> make_cuda_hstu(HstuModel model, const CudaRankerOptions& options);

}  // namespace troupe::kernels::cuda
