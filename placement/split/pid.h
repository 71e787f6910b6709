#pragma once
// The classical controller among HLEM's baselines: alpha follows the difference of what the two sides' misses
// cost, by its value, its sum and its change. It wants both to cost the same, which is not what is best; that
// is its known flaw.
#include "placement/split/split_policy.h"

namespace troupe::placement {

struct PidOptions {
  double proportional = 0.1, integral = 0.02, derivative = 0.05;
  double kv_weight = 1,
         row_weight = 1;  // what a request costs whose keys and values, or all of whose rows, are missing
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
