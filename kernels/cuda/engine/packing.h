#pragma once
// Arrays that go to a device in one piece: one after the other, each where any type may begin.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels::cuda {

constexpr std::size_t packing_alignment = 16;

template <class T>
std::uint32_t size32(const std::vector<T>& all) {
  return static_cast<std::uint32_t>(all.size());
}

// `array` begins at `at`, which goes on behind its `count` elements.
template <class T>
void take_packed(T*& array, std::size_t count, std::byte*& at) {
  array = reinterpret_cast<T*>(at);
  at += (count * sizeof(T) + packing_alignment - 1) / packing_alignment * packing_alignment;
}

}  // namespace troupe::kernels::cuda
