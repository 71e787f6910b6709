// Chooses alpha (the share of the pool for embedding rows) by Bayesian optimisation over the
// latencies of the last windows. It is a baseline of the paper HLEM.
#include "placement/baselines/bayes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::placement {

BayesSplit::BayesSplit(const BayesOptions& options) : options_(options) {
  observations_.reserve(options.windows + 1);
  factor_.resize(options.windows * options.windows);
  weights_.resize(options.windows);
  column_.resize(options.windows);
}

double BayesSplit::covariance(double a, double b) const {
  const double apart = (a - b) / options_.width;
  return std::exp(-apart * apart / 2);
}

// Computes the Cholesky factor of the covariances and the weights of the observed latencies, which
// the caller has normalized to mean 0 and unit spread.
void BayesSplit::fit() {
  const std::size_t n = observations_.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = covariance(observations_[i].alpha, observations_[j].alpha);
      if (i == j) sum += options_.noise * static_cast<double>(n - i);
      for (std::size_t k = 0; k < j; ++k) sum -= factor_[i * n + k] * factor_[j * n + k];
      factor_[i * n + j] = i == j ? std::sqrt(std::max(1e-9, sum)) : sum / factor_[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    double sum = observations_[i].p99;
    for (std::size_t k = 0; k < i; ++k) sum -= factor_[i * n + k] * weights_[k];
    weights_[i] = sum / factor_[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) weights_[i] -= factor_[k * n + i] * weights_[k];
    weights_[i] /= factor_[i * n + i];
  }
}

BayesSplit::Estimate BayesSplit::estimate(double alpha) {
  const std::size_t n = observations_.size();
  Estimate estimate{0, 1};
  for (std::size_t i = 0; i < n; ++i) {
    double sum = covariance(alpha, observations_[i].alpha);
    estimate.mean += sum * weights_[i];
    for (std::size_t k = 0; k < i; ++k) sum -= factor_[i * n + k] * column_[k];
    column_[i] = sum / factor_[i * n + i];
    estimate.deviation -= column_[i] * column_[i];
  }
  estimate.deviation = std::sqrt(std::max(1e-9, estimate.deviation));
  return estimate;
}

double BayesSplit::next_alpha(const SplitView& view) {
  if (observations_.size() == options_.windows) observations_.erase(observations_.begin());
  observations_.push_back({view.state.alpha, view.state.p99});
  std::vector<Observation> raw = observations_;
  double mean = 0, square = 0;
  for (const Observation& s : raw) mean += s.p99 / static_cast<double>(raw.size());
  for (const Observation& s : raw)
    square += (s.p99 - mean) * (s.p99 - mean) / static_cast<double>(raw.size());
  const double spread = std::sqrt(square) + 1e-6;
  for (Observation& s : observations_) s.p99 = (s.p99 - mean) / spread;
  fit();
  double best = 0, most = -1, least = 1e9;
  for (int cell = 10; cell <= 90; cell += 2) least = std::min(least, estimate(cell / 100.0).mean);
  for (int cell = 10; cell <= 90; cell += 2) {
    const Estimate g = estimate(cell / 100.0);
    const double z = (least - g.mean) / g.deviation;
    const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    const double gain = g.deviation * (z * below + std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi));
    if (gain > most) {
      most = gain;
      best = cell / 100.0;
    }
  }
  observations_ = std::move(raw);
  return best;
}

}  // namespace troupe::placement
