#pragma once
// Packs arrays one after the other for a single upload; each starts at an alignment that suits any
// type.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels::cuda {

constexpr std::size_t packing_alignment = 16;

template <class T>
std::uint32_t size32(const std::vector<T>& all) {
  return static_cast<std::uint32_t>(all.size());
}

// Places `array` at `at` and moves `at` behind its `count` elements.
template <class T>
void take_packed(T*& array, std::size_t count, std::byte*& at) {
  array = reinterpret_cast<T*>(at);
  at += (count * sizeof(T) + packing_alignment - 1) / packing_alignment * packing_alignment;
}

}  // namespace troupe::kernels::cuda
