#pragma once
// Turns an error of the CUDA runtime, of a call or a launch, into a DeviceError, or ends the
// process if the device is lost.
#include <cuda_runtime_api.h>

namespace troupe::kernels::cuda {

// Throws DeviceError, or ends the process if the device is lost to it (device_lost.h).
[[noreturn]] void cuda_failed(const char* call, cudaError_t error);

}  // namespace troupe::kernels::cuda
