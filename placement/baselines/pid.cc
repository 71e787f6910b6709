// Chooses alpha (the share of the pool for embedding rows) by a PID controller that equalizes the
// miss costs of both sides. It is a baseline of the paper HLEM.
#include "placement/baselines/pid.h"

#include <algorithm>

namespace troupe::placement {

double PidSplit::next_alpha(const SplitView& view) {
  const double all = options_.kv_weight + options_.row_weight;
  const double error =
      (options_.row_weight * (1 - view.state.row_hits) - options_.kv_weight * (1 - view.state.kv_hits)) / all;
  sum_ = std::clamp(sum_ + error, -5.0, 5.0);
  const double change = error - last_;
  last_ = error;
  return clip_alpha(view.state.alpha + options_.proportional * error + options_.integral * sum_ +
                    options_.derivative * change);
}

}  // namespace troupe::placement
