#pragma once
// Arrays of any length that go to a device together: put in one after the other, sent in one upload. Room on
// both sides grows to what was needed so far.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/engine/packing.h"

namespace troupe::kernels::cuda {

class Parcel {
 public:
  // Empty again. Whoever reads what was sent before has ended: the stream was waited for.
  void begin() { host_.clear(); }

  // Filled up with T{} to `count` elements. Returns where the array lies, for `at`.
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
  // On the device, once it was sent.
  template <class T>
  T* at(std::size_t place) const {
    return reinterpret_cast<T*>(device_.data() + place);
  }

 private:
  std::vector<std::byte> host_;
  DeviceMemory device_;
};

}  // namespace troupe::kernels::cuda
