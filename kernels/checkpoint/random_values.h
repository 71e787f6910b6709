#pragma once
// Seeded random values for the weights of untrained models. Each value is a function of its index,
// so a model of billions of weights is made as fast as memory can be written.
#include <cstdint>

namespace troupe::kernels {

// Nearly normal, mean 0, deviation 1, never beyond 3.5: the sum of four uniform 16-bit numbers.
inline float nearly_normal(std::uint64_t bits) {
  const auto sum =
      static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0f) * (1.7320508f / 65536.0f);
}

}  // namespace troupe::kernels
