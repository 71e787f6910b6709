#pragma once
// Splits by Bayesian optimisation, one of HLEM's baselines. A Gaussian process over alpha models
// the latencies of the last windows; older ones have more noise. The next alpha is the one with the
// largest expected improvement over the best estimate.
#include <cstddef>
#include <vector>

#include "placement/split/split_policy.h"

namespace troupe::placement {

struct BayesOptions {
  std::size_t windows = 24;  // windows to remember
  double width = 0.15;       // difference in alpha over which latencies are similar
  double noise = 0.1;        // noise of a window relative to the spread; grows by this much per window of age
};

class BayesSplit final : public AlphaPolicy {
 public:
  explicit BayesSplit(const BayesOptions& options = {});
  double next_alpha(const SplitView& view) override;

 private:
  struct Observation {
    double alpha = 0, p99 = 0;
  };
  struct Estimate {
    double mean = 0, deviation = 0;
  };
  double covariance(double a, double b) const;
  void fit();
  Estimate estimate(double alpha);

  BayesOptions options_;
  std::vector<Observation> observations_;          // latest last
  std::vector<double> factor_, weights_, column_;  // of the fit: a lower triangle, row by row
};

}  // namespace troupe::placement
