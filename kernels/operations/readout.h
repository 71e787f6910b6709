#pragma once
// Computes logits of named rows of the output projection, without computing the whole projection.
// States that ask for the same rows (beams; candidates scored over one list) are computed together,
// so that a row is read once for several of them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/checkpoint/model.h"

namespace troupe::kernels {

// out[s][i] = dot(states[s], row rows[i] of `output`). Every state has output.columns values, rows
// must be inside the matrix, and out[s] has rows.size() values. Accumulates in float32.
using ReadoutRows = void(std::span<const float* const> states, const Matrix& output,
                         std::span<const Token> rows, std::span<float* const> out);

ReadoutRows readout_rows_reference;  // readout_reference.cc: the definition, in double; never tuned
ReadoutRows readout_rows;            // the best version for this CPU

struct ReadoutVersion {
  std::string_view name;  // "avx512", "avx2", …, "reference"
  ReadoutRows* run;
  bool usable;  // on this CPU
};
std::span<const ReadoutVersion> readout_versions();

}  // namespace troupe::kernels
