#pragma once
// Rows of an embedding table side by side, from wherever each is: what a pass computes with. Bound by memory:
// bytes moved = rows * columns * 4, read once and written once; rows lie far apart, so a fast version asks
// for those ahead.
#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::kernels {

// out[i][c] = rows[i][c], of `columns` values. Rows may be the same; none overlaps `out`.
using GatherRows = void(std::span<const float* const> rows, std::size_t columns, float* out);

GatherRows gather_rows_reference;
GatherRows gather_rows;  // the best version for this CPU

struct GatherVersion {
  std::string_view name;  // "ahead", "reference"
  GatherRows* run;
};
std::span<const GatherVersion> gather_versions();

}  // namespace troupe::kernels
