#pragma once
// Device code that stores single numbers in rows that products read, and in vectors that attention
// reads.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace troupe::kernels::cuda::simt {

// Writes column i of a row of `inputs` numbers, in its parts (device/half_format.h).
template <class Format>
struct RowNumbers {
  static TROUPE_DEVICE void write(std::uint16_t* rows, std::size_t row, std::size_t inputs, std::size_t i,
                                  float x) {
    rows[row * inputs + i] = static_cast<std::uint16_t>(pack<Format>(x, 0));
  }
};
template <>
struct RowNumbers<Split> {
  static TROUPE_DEVICE void write(std::uint16_t* rows, std::size_t row, std::size_t inputs, std::size_t i,
                                  float x) {
    std::uint16_t* const to = rows + row * 3 * inputs + i;
    const std::uint32_t rounded = pack<F16>(x, 0);
    to[0] = to[2 * inputs] = static_cast<std::uint16_t>(rounded);
    to[inputs] = static_cast<std::uint16_t>(pack<F16>(x - low_of<F16>(rounded), 0));
  }
};

// Writes numbers i and i + 1 (i even) of a vector of `dim` numbers: a query, key or value.
template <class Format>
struct VectorNumbers {
  static constexpr unsigned parts = 1;
  static TROUPE_DEVICE void write_two(void* vector, unsigned, unsigned i, float low, float high) {
    static_cast<std::uint32_t*>(vector)[i / 2] = pack<Format>(low, high);
  }
};
template <>
struct VectorNumbers<Split> {
  static constexpr unsigned parts = 2;
  static TROUPE_DEVICE void write_two(void* vector, unsigned dim, unsigned i, float low, float high) {
    auto* const to = static_cast<std::uint32_t*>(vector);
    const std::uint32_t rounded = pack<F16>(low, high);
    to[i / 2] = rounded;
    to[(dim + i) / 2] = pack<F16>(low - low_of<F16>(rounded), high - high_of<F16>(rounded));
  }
};

}  // namespace troupe::kernels::cuda::simt
