#pragma once
// Reference for Climber, in float64, row by row, from a request: the executor and the golden files
// are compared with it. Never tuned.
#include <vector>

#include "kernels/climber/climber.h"

namespace troupe::kernels {

using ClimberVector = std::vector<double>;

struct ClimberAnswer {
  std::vector<ClimberVector> logits;             // [task][candidate]
  std::vector<std::size_t> lengths;              // [tower]: events of its sub-sequence
  std::vector<std::vector<ClimberVector>> ends;  // [tower][candidate][hidden], normed
  std::vector<ClimberVector> gates, fused;       // [candidate][fused]
  std::vector<std::vector<std::vector<ClimberVector>>>
      rows;  // [tower][layer][row]: before the first layer and after each
};

ClimberAnswer compute_climber(const ClimberModel& model, const ClimberRequest& request);

}  // namespace troupe::kernels
