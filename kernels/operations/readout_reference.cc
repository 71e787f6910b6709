// Computes logits of named rows in double, one by one; faster versions are tested against it.
#include "kernels/operations/readout.h"

namespace troupe::kernels {

void readout_rows_reference(std::span<const float* const> states, const Matrix& output,
                            std::span<const Token> rows, std::span<float* const> out) {
  for (std::size_t s = 0; s < states.size(); ++s)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float* row = &output.values[static_cast<std::size_t>(rows[i]) * output.columns];
      double sum = 0;
      for (std::size_t c = 0; c < output.columns; ++c) sum += double{states[s][c]} * double{row[c]};
      out[s][i] = static_cast<float>(sum);
    }
}

}  // namespace troupe::kernels
