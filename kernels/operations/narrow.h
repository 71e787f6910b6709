#pragma once
// Rounds float32 to the 16-bit formats in which keys and values may be stored: to nearest, ties to
// even; values too large become infinity, and NaN stays NaN (though not bit-equal). Every version
// gives exactly the results of to_f16 and to_bf16. Memory-bound: 6 bytes moved per value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::kernels {

// to[r*width + i] = in[r*stride + i], rounded; rows of `width` values, strides in values.
using Narrow = void(const float* in, std::size_t stride, std::uint16_t* to, std::size_t rows,
                    std::size_t width);

struct NarrowVersion {
  std::string_view name;  // "reference", "avx512", "avx2", …
  Narrow *to_f16, *to_bf16;
  bool usable;  // on this CPU
};
std::span<const NarrowVersion> narrow_versions();  // the last is "reference"
const NarrowVersion& narrowing();                  // the best that this CPU can run

}  // namespace troupe::kernels
