#pragma once
// Float32 rounded to the 16-bit formats that keys and values may be stored in: to nearest, ties to even, too
// large becomes infinity, NaN stays NaN (though not the same one). Every version gives exactly what to_f16
// and to_bf16 give. Memory-bound: 6 bytes moved per value.
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
