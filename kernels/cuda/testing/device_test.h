#pragma once
// Helpers for tests of device code: arrays on the device, and the message that there is no device.
#include <doctest/doctest.h>

#include <vector>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

inline bool have_device() {
  if (device_count() > 0) return true;
  MESSAGE("skipped: no CUDA device on this machine");
  return false;
}

// Device memory with the contents of `host`.
template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& host) : memory_(host.size() * sizeof(T)), count_(host.size()) {
    if (count_ == 0) return;
    Stream stream;
    stream.upload(memory_.data(), host.data(), count_ * sizeof(T));
    stream.synchronize();
  }
  T* get() const { return memory_.template as<T>(); }
  // Returns the contents; waits for the stream first.
  std::vector<T> host(Stream& stream) const {
    std::vector<T> out(count_);
    if (count_ > 0) stream.download(out.data(), memory_.data(), count_ * sizeof(T));
    stream.synchronize();
    return out;
  }

 private:
  DeviceMemory memory_;
  std::size_t count_;
};

}  // namespace troupe::kernels::cuda
