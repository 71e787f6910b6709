#pragma once
// Collects arrays of any length and sends them to the device in one upload. The buffers on both
// sides grow as needed.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/engine/packing.h"

namespace troupe::kernels::cuda {

class UploadBuffer {
 public:
  // Empties the parcel. Readers of earlier contents must have ended: the stream was synchronized.
  void begin() { host_.clear(); }

  // Appends the array, padded with T{} to `count` elements. Returns its offset, for `at`.
  template <class T>
  std::size_t put(const std::vector<T>& array, std::size_t count = 0) {
    const std::size_t place = host_.size(), elements = std::max(count, array.size());
    std::byte* end = nullptr;
    T* counted = nullptr;
    take_packed(counted, elements, end);
    host_.resize(place + static_cast<std::size_t>(end - static_cast<std::byte*>(nullptr)));
    auto* const to = reinterpret_cast<T*>(host_.data() + place);
    std::fill(std::copy(array.begin(), array.end(), to), to + elements, T{});
    return place;
  }
  void send(Stream& stream) {
    if (device_.size_bytes() < host_.size()) device_ = DeviceMemory(host_.size() + host_.size() / 2);
    if (!host_.empty()) stream.upload(device_.data(), host_.data(), host_.size());
  }
  // Returns the device address of an array after `send`.
  template <class T>
  T* at(std::size_t place) const {
    return reinterpret_cast<T*>(device_.data() + place);
  }

 private:
  std::vector<std::byte> host_;
  DeviceMemory device_;
};

}  // namespace troupe::kernels::cuda
