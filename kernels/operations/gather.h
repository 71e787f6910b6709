#pragma once
// Copies rows of an embedding table, each from its own address, side by side into one matrix.
// Memory-bound: bytes moved = rows * columns * 4, read once and written once. Rows are far apart,
// so a fast version prefetches the next ones.
#include <cstddef>
#include <span>
#include <string_view>

namespace troupe::kernels {

// out[i][c] = rows[i][c], for `columns` values. Rows may repeat; none overlaps `out`.
using GatherRows = void(std::span<const float* const> rows, std::size_t columns, float* out);

GatherRows gather_rows_reference;
GatherRows gather_rows;  // the best version for this CPU

struct GatherVersion {
  std::string_view name;  // "ahead", "reference"
  GatherRows* run;
};
std::span<const GatherVersion> gather_versions();

}  // namespace troupe::kernels
