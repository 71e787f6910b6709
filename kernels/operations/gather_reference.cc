// Copies rows one by one; the prefetching version is tested against it.
#include "kernels/operations/gather.h"

namespace troupe::kernels {

void gather_rows_reference(std::span<const float* const> rows, std::size_t columns, float* out) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < columns; ++c) out[i * columns + c] = rows[i][c];
}

}  // namespace troupe::kernels
