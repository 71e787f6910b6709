// Rounds float32 to the 16-bit formats bf16 and f16, bit by bit. It defines what every faster
// version must give, on any CPU.
#include "kernels/base/float_formats.h"

#include <cmath>

namespace troupe::kernels {
namespace {

// Returns `bits` without its lowest `dropped` bits, rounded to nearest, ties to even. A carry into
// the exponent is right: it gives the next power of two.
std::uint32_t round_off(std::uint32_t bits, int dropped) {
  const std::uint32_t odd = bits >> dropped & 1;
  return (bits + (std::uint32_t{1} << (dropped - 1)) - 1 + odd) >> dropped;
}

}  // namespace

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>(round_off(bits, 16));
}

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;    // 2^-14
  constexpr std::uint32_t kRoundsToInfinity = 0x477ff000u;  // 65520, halfway between 65504 and 2^16
  std::uint32_t narrow = 0;
  if (std::isnan(value))
    narrow = 0x7e00u;
  else if (magnitude >= kRoundsToInfinity)
    narrow = 0x7c00u;
  else if (magnitude < kSmallestNormal)  // a multiple of 2^-24; nearbyint rounds ties to even
    narrow = static_cast<std::uint32_t>(std::nearbyint(std::fabs(value) * 0x1p24f));
  else
    narrow = round_off(magnitude - (112u << 23), 13);
  return static_cast<std::uint16_t>(sign | narrow);
}

}  // namespace troupe::kernels
