#pragma once
// The errors of the CUDA runtime after which, by its documentation, a process must end before it can use
// the device again: every later call would fail with the same error.
#include <algorithm>
#include <array>

namespace troupe::kernels::cuda {

// Numbers, because older toolkits lack the newer names.
inline constexpr std::array<int, 16> device_losses{214,   // cudaErrorECCUncorrectable
                                                   220,   // cudaErrorNvlinkUncorrectable
                                                   226,   // cudaErrorContained
                                                   700,   // cudaErrorIllegalAddress
                                                   702,   // cudaErrorLaunchTimeout
                                                   709,   // cudaErrorContextIsDestroyed
                                                   710,   // cudaErrorAssert
                                                   714,   // cudaErrorHardwareStackError
                                                   715,   // cudaErrorIllegalInstruction
                                                   716,   // cudaErrorMisalignedAddress
                                                   717,   // cudaErrorInvalidAddressSpace
                                                   718,   // cudaErrorInvalidPc
                                                   719,   // cudaErrorLaunchFailure
                                                   721,   // cudaErrorTensorMemoryLeak
                                                   810,   // cudaErrorMpsClientTerminated
                                                   911};  // cudaErrorExternalDevice

constexpr bool is_device_loss(int error) {
  return std::ranges::find(device_losses, error) != device_losses.end();
}

}  // namespace troupe::kernels::cuda
