#pragma once
// Seeded random values for the weights of untrained models. Each value is a function of its index,
// so a model of billions of weights is made as fast as memory can be written.
#include <cstdint>

namespace troupe::kernels {

// Mixes a counter into 64 bits that look random (splitmix64, Steele et al. 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Nearly normal, mean 0, deviation 1, never beyond 3.5: the sum of four uniform 16-bit numbers.
inline float nearly_normal(std::uint64_t bits) {
  const auto sum =
      static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0f) * (1.7320508f / 65536.0f);
}

}  // namespace troupe::kernels
