#pragma once
// Handles an error of the CUDA runtime, for calls and launches alike.
#include <cuda_runtime_api.h>

namespace troupe::kernels::cuda {

// Throws DeviceError, or ends the process if the device is lost to it (device_lost.h).
[[noreturn]] void cuda_failed(const char* call, cudaError_t error);

}  // namespace troupe::kernels::cuda
