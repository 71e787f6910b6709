#pragma once
// After some failures (an illegal address, memory that cannot be corrected) a device does nothing more for
// the process: every later call fails with the same error, and a server would answer every request with it
// for ever. So the process ends and says why; whoever supervises it starts it anew, and the requests that
// were under way are tried elsewhere, or told from others as those that kill their worker.
#include <string>

namespace troupe::kernels::cuda {

// `what`: call and error, as a DeviceError has them.
[[noreturn]] void device_lost(const std::string& what);
// For a program that nobody starts anew: from now on such a failure is a DeviceError like others.
void throw_when_device_lost();

}  // namespace troupe::kernels::cuda
