#pragma once
// Implements the Climber family on a device, with the plans, pages and mathematics of
// kernels/climber. The rows of all towers attend in one launch; each tower has its own products. A
// row's query contains its temperature, so the decoders' attention kernels are used. Passes are not
// recorded as graphs.
#include <memory>
#include <string>

#include "kernels/climber/climber.h"
#include "kernels/cuda/engine/ranker_options.h"

namespace troupe::kernels::cuda {

// Returns an empty string if there are kernels for the model, else what is wrong and what was
// expected.
std::string cuda_climber_fault(const ClimberConfig& config, const CudaRankerOptions& options);

// Requires a configuration and options without a fault. Pages of requests are device addresses.
// Measured times are device seconds, except for planning. A pass throws DeviceError on failure.
std::unique_ptr<Executor> make_cuda_climber(ClimberModel model, const CudaRankerOptions& options);

}  // namespace troupe::kernels::cuda
