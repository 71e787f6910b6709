#pragma once
// Bayesian optimisation among HLEM's baselines: a Gaussian process over alpha, of the latencies that the last
// windows had with theirs, older ones with more noise; the next alpha is where it expects the most
// improvement over its best guess.
#include <cstddef>
#include <vector>

#include "placement/split/split_policy.h"

namespace troupe::placement {

struct BayesOptions {
  std::size_t windows = 24;  // that it remembers
  double width = 0.15;       // over which latencies are alike
  double noise = 0.1;        // of a window's, over their spread; grows by as much each window
};

class BayesSplit final : public AlphaPolicy {
 public:
  explicit BayesSplit(const BayesOptions& options = {});
  double next_alpha(const SplitView& view) override;

 private:
  struct Seen {
    double alpha = 0, p99 = 0;
  };
  struct Guess {
    double mean = 0, deviation = 0;
  };
  double likeness(double a, double b) const;
  void fit();
  Guess guess(double alpha);

  BayesOptions options_;
  std::vector<Seen> seen_;                         // the last one behind
  std::vector<double> factor_, weights_, column_;  // of the fit: a lower triangle, row by row
};

}  // namespace troupe::placement
