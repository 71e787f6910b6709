#pragma once
// The two 16-bit formats of a device decoder's weights and of the activations that they are multiplied with.
// bf16 has float32's range; f16 has three bits more, and ends at 65,504.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/operations/narrow.h"

namespace troupe::kernels::cuda {

enum class HalfFormat : std::uint8_t { bf16, f16 };

// Of rounding to nearest: half a step, relative.
constexpr double unit_roundoff(HalfFormat format) { return format == HalfFormat::bf16 ? 0x1p-9 : 0x1p-12; }

inline void round_to(HalfFormat format, std::span<const float> from, std::uint16_t* to) {
  const NarrowVersion& narrow = narrowing();
  (format == HalfFormat::bf16 ? narrow.to_bf16 : narrow.to_f16)(from.data(), from.size(), to, 1, from.size());
}

}  // namespace troupe::kernels::cuda
