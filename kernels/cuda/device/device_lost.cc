// Ends the process with a message when the device is lost, because every later call would fail. A
// supervisor then restarts it.
#include "kernels/cuda/device/device_lost.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {
namespace {

std::atomic<bool> throws{false};

}  // namespace

void throw_when_device_lost() { throws = true; }

void device_lost(const std::string& what) {
  if (throws) throw DeviceError(what);
  std::fprintf(stderr,
               "%s; this process can no longer use the device and ends, so that its supervisor restarts it\n",
               what.c_str());
  std::abort();
}

}  // namespace troupe::kernels::cuda
