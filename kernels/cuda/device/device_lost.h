#pragma once
// Ends the process when the device is lost. After some failures (an illegal address, uncorrectable
// memory) every later call of the process fails with the same error, so a server would answer every
// request with it. The process therefore ends with a message. A supervisor restarts it. Requests in
// flight are retried elsewhere; one that kills its workers again is recognised as poison.
#include <string>

namespace troupe::kernels::cuda {

// Ends the process. `what`: call and error, as in a DeviceError.
[[noreturn]] void device_lost(const std::string& what);
// Makes later losses throw DeviceError, for a program without a supervisor.
void throw_when_device_lost();

}  // namespace troupe::kernels::cuda
