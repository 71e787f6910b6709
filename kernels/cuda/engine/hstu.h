#pragma once
// The HSTU family on a device: the plans, pages and mathematics of kernels/hstu, with attention by the policy
// Silu of the decoders' kernels. The steps of time buckets along a row's keys are found on the host, once for
// all layers and heads (kernels/hstu/pair_bias.h), and uploaded beside the plan. Requests are not recorded as
// graphs: their passes are long.
#include <memory>
#include <string>

#include "kernels/cuda/engine/ranker_options.h"
#include "kernels/hstu/hstu.h"

namespace troupe::kernels::cuda {

// Empty if there are kernels for such a model, else what is wrong and what was expected.
std::string cuda_hstu_fault(const HstuConfig& config, const CudaRankerOptions& options);

// The configuration and options are ones without a fault. Pages of requests are addresses of device memory;
// times that are measured are the device's, in seconds, but for planning. A pass throws DeviceError.
std::unique_ptr<Executor> make_cuda_hstu(HstuModel model, const CudaRankerOptions& options);

}  // namespace troupe::kernels::cuda
