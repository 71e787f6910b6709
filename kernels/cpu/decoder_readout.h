#pragma once
// Logits of named vocabulary rows: only they are computed, never the whole output projection.
#include <span>

#include "kernels/model.h"

namespace troupe::kernels {

// out[i] = dot(state, output row which[i]); `state` has output.columns values, rows are inside the matrix.
void dot_rows(const float* state, const Matrix& output, std::span<const Token> which, float* out);

}  // namespace troupe::kernels
