#pragma once
// Defines the two 16-bit formats of a device decoder's weights and of the activations they are
// multiplied with. bf16 has float32's range; f16 has three more bits of precision and a maximum of
// 65,504.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operations/narrow.h"

namespace troupe::kernels::cuda {

enum class HalfFormat : std::uint8_t { bf16, f16 };

// Format of the factors of a product: 16-bit numbers, or numbers split into two f16 parts, the
// rounded value and the remainder. For `split`, an activation has the parts [rounded | remainder |
// rounded] side by side and a weight [rounded | rounded | remainder]. So one product with three
// times the inputs adds up all terms that matter, to about float32's accuracy.
enum class RowFormat : std::uint8_t { bf16, f16, split };

constexpr HalfFormat half_of(RowFormat format) {
  return format == RowFormat::bf16 ? HalfFormat::bf16 : HalfFormat::f16;
}
constexpr std::uint32_t parts_of(RowFormat format) { return format == RowFormat::split ? 3 : 1; }

// Returns the relative error of rounding to nearest: half a step.
constexpr double unit_roundoff(HalfFormat format) { return format == HalfFormat::bf16 ? 0x1p-9 : 0x1p-12; }

inline void round_to(HalfFormat format, std::span<const float> from, std::uint16_t* to) {
  const NarrowVersion& narrow = narrowing();
  (format == HalfFormat::bf16 ? narrow.to_bf16 : narrow.to_f16)(from.data(), from.size(), to, 1, from.size());
}

}  // namespace troupe::kernels::cuda
