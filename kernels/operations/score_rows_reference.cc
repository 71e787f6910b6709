// Scores the rows of a table in double, one by one; faster versions are tested against it.
#include "kernels/operations/score_rows.h"

namespace troupe::kernels {

void score_rows_reference(const ScoreTask& task) {
  for (std::size_t s = 0; s < task.states.size(); ++s)
    for (std::size_t r = 0; r < task.rows; ++r) {
      const float* const row = task.table + r * task.columns;
      double sum = 0;
      for (std::size_t c = 0; c < task.columns; ++c) sum += double{task.states[s][c]} * double{row[c]};
      task.out[s][r] = static_cast<float>(task.factors == nullptr ? sum : sum * double{task.factors[r]});
    }
}

}  // namespace troupe::kernels
