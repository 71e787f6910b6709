#pragma once
// The 16-bit floating-point formats of checkpoints, bit by bit. Widening is exact; narrowing rounds to
// nearest, ties to even, and overflows to infinity. NaN stays NaN.
#include <bit>
#include <cstdint>

namespace troupe::kernels {

inline float from_bf16(std::uint16_t stored) { return std::bit_cast<float>(std::uint32_t{stored} << 16); }

// Exponent and fraction move to their float32 positions. Multiplying by 2^112 makes up for the
// difference of the exponent biases and gives subnormals their value. The largest exponent
// (infinity, NaN) must become float32's largest.
inline float from_f16(std::uint16_t stored) {
  const std::uint32_t sign = std::uint32_t{stored} << 16 & 0x80000000u;
  const std::uint32_t magnitude = (std::uint32_t{stored} & 0x7fffu) << 13;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = magnitude | 0x7f800000u;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? special : finite));
}

std::uint16_t to_bf16(float value);
std::uint16_t to_f16(float value);

}  // namespace troupe::kernels
