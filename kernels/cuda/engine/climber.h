#pragma once
// The Climber family on a device: the plans, pages and mathematics of kernels/climber. The rows of all towers
// attend in one launch; products are a tower's own. A row's temperature is in its query, so that attention is
// the decoders'. Passes are not recorded as graphs.
#include <memory>
#include <string>

#include "kernels/climber/climber.h"
#include "kernels/cuda/engine/ranker_options.h"

namespace troupe::kernels::cuda {

// Empty if there are kernels for such a model, else what is wrong and what was expected.
std::string cuda_climber_fault(const ClimberConfig& config, const CudaRankerOptions& options);

// The configuration and options are ones without a fault. Pages of requests are addresses of device memory;
// times that are measured are the device's, in seconds, but for planning. A pass throws DeviceError.
std::unique_ptr<Executor> make_cuda_climber(ClimberModel model, const CudaRankerOptions& options);

}  // namespace troupe::kernels::cuda
