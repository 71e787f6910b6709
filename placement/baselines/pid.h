#pragma once
// Splits by a PID controller, one of HLEM's baselines. Alpha follows the difference between the two
// sides' miss costs: its value, its sum and its change. The controller makes both costs equal,
// which is not the optimum; that is its known flaw.
#include "placement/split/split_policy.h"

namespace troupe::placement {

struct PidOptions {
  double proportional = 0.1, integral = 0.02, derivative = 0.05;
  // Cost of a request whose keys and values, or all of whose rows, are missing.
  double kv_weight = 1, row_weight = 1;
};

class PidSplit final : public AlphaPolicy {
 public:
  explicit PidSplit(const PidOptions& options) : options_(options) {}
  double next_alpha(const SplitView& view) override;

 private:
  PidOptions options_;
  double sum_ = 0, last_ = 0;
};

}  // namespace troupe::placement
