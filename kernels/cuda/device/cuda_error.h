#pragma once
// What becomes of an error of the CUDA runtime, the same for calls and for launches.
#include <cuda_runtime_api.h>

namespace troupe::kernels::cuda {

// Throws DeviceError, or ends the process where the device is lost to it (device_lost.h).
[[noreturn]] void cuda_failed(const char* call, cudaError_t error);

}  // namespace troupe::kernels::cuda
