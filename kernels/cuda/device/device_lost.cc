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
               "%s; the device does nothing more for this process, which ends so as to be started anew\n",
               what.c_str());
  std::abort();
}

}  // namespace troupe::kernels::cuda
