#pragma once
// The two 16-bit formats of a device decoder's weights and of the activations that they are multiplied with.
// bf16 has float32's range; f16 has three bits more, and ends at 65,504.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operations/narrow.h"

namespace troupe::kernels::cuda {

enum class HalfFormat : std::uint8_t { bf16, f16 };

// What products multiply: 16-bit numbers, or numbers in two parts, f16 both, rounded and what is left of it.
// Of those an activation has the parts [rounded | rests | rounded] side by side and a weight [rounded |
// rounded | rests], so that one product of three times the inputs adds up all that matters, to float32's
// accuracy or nearly.
enum class RowFormat : std::uint8_t { bf16, f16, split };

constexpr HalfFormat half_of(RowFormat format) {
  return format == RowFormat::bf16 ? HalfFormat::bf16 : HalfFormat::f16;
}
constexpr std::uint32_t parts_of(RowFormat format) { return format == RowFormat::split ? 3 : 1; }

// Of rounding to nearest: half a step, relative.
constexpr double unit_roundoff(HalfFormat format) { return format == HalfFormat::bf16 ? 0x1p-9 : 0x1p-12; }

inline void round_to(HalfFormat format, std::span<const float> from, std::uint16_t* to) {
  const NarrowVersion& narrow = narrowing();
  (format == HalfFormat::bf16 ? narrow.to_bf16 : narrow.to_f16)(from.data(), from.size(), to, 1, from.size());
}

}  // namespace troupe::kernels::cuda
