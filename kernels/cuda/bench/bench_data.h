#pragma once
// Fills device memory for the benchmark with random numbers, or with poison that a kernel must
// overwrite.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/device/device.h"

namespace troupe::kernels::cuda {

using Chance = std::mt19937_64;

enum class NumberKind : std::uint8_t { f32, bf16, f16 };
constexpr std::size_t number_bytes(NumberKind kind) { return kind == NumberKind::f32 ? 4 : 2; }

class DeviceNumbers {
 public:
  // Draws nearly normal numbers of deviation `size`. Large memory is filled by repeating a block of
  // them.
  DeviceNumbers(NumberKind kind, std::size_t count, Chance& chance, float size = 1);
  // Fills with NaN.
  DeviceNumbers(NumberKind kind, std::size_t count);

  NumberKind kind() const { return kind_; }
  std::size_t size_bytes() const { return memory_.size_bytes(); }
  std::byte* data() const { return memory_.data(); }
  float* f32() const { return memory_.as<float>(); }
  std::uint16_t* half() const { return memory_.as<std::uint16_t>(); }
  // Returns the current contents; waits for the device.
  std::vector<double> read(std::size_t first, std::size_t count) const;
  // Returns the index of a number that is still poison, if any. In very large memory only the
  // beginning and the end are searched.
  std::optional<std::size_t> find_poison() const;

 private:
  void repeat(std::span<const std::byte> block);

  NumberKind kind_;
  DeviceMemory memory_;
};

// An array of plain structs on the device.
template <class T>
class DeviceList {
 public:
  explicit DeviceList(std::span<const T> list) : memory_(list.size() * sizeof(T)) {
    if (list.empty()) return;
    Stream stream;
    stream.upload(memory_.data(), list.data(), list.size() * sizeof(T));
    stream.synchronize();
  }
  T* get() const { return memory_.template as<T>(); }

 private:
  DeviceMemory memory_;
};

// Waits for the device.
std::vector<std::byte> read_bytes(const std::byte* device, std::size_t count);

}  // namespace troupe::kernels::cuda
