#pragma once
// Attention by the softmax of Meta's research code (normalization "softmax_rel_bias"). It divides by a sum
// over all positions of a full history, and hides later ones only afterwards. So a row's denominator has
// the logits of events after it and of the padding behind the history, and depends on all of the history:
//
//   out_i = sum over j <= i of w_ij value_j,   w_ij = exp(z_ij) / sum over all positions k of exp(z_ik)
//   z_ij = scale * (query_i · key_j + bias(i, j))
//
// Keys of the padding are zero. Its first position has the request's time, the others have time 0. There is
// one head, of any size.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/hstu/time_steps.h"
#include "kernels/operations/silu_attend.h"

namespace troupe::kernels {

struct WholeSoftmaxTask {
  // `scale` is above; `factor` and the intervals are not used. All keys are the tail's: row r sees those at
  // its position or before, and has all of them in its denominator.
  SiluAttendTask pairs;
  std::uint32_t positions = 0;              // of a full history
  std::span<const std::int32_t> row_at;     // [rows]: index of the row's own key
  std::span<const std::int64_t> row_times;  // [rows], with a bias: time of the next event
  std::int64_t now = 0;                     // the request's time
  const TimeBuckets* buckets = nullptr;
};

// `weights` is working memory.
void attend_whole(const WholeSoftmaxTask& task, std::vector<double>& weights);

}  // namespace troupe::kernels
