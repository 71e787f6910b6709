// Measures how expensive it is to pull a block from another node compared with computing it, from
// requests that pulled. The planner uses this ratio.
#include "router/request/pull_cost.h"

#include <algorithm>

namespace troupe::router {
namespace {

constexpr double start_us = 20'000;  // weight of the start value, in time of computing
constexpr double pull_us_max = 1e6;  // limit for one answer, so that an outlier does not dominate
constexpr double keep_per_pull = 0.99;
constexpr double keep_per_beat = 0.986;  // half after 50 heartbeats: ten seconds at 200 ms

}  // namespace

void PullCost::note(double computed_us, double pull_us, double tokens) {
  if (computed_us <= 0 || pull_us <= 0) return;
  recent_us_ = recent_us_ * keep_per_pull + std::min(pull_us, pull_us_max);
  recent_tokens_ = recent_tokens_ * keep_per_pull + tokens;
  pulled_us_ += std::min(pull_us, pull_us_max);
  computed_us_ += computed_us;
}

void PullCost::beat() {
  pulled_us_ *= keep_per_beat;
  computed_us_ *= keep_per_beat;
}

double PullCost::share() const {
  return std::min(1.0, (start_ * start_us + pulled_us_) / (start_us + computed_us_));
}

}  // namespace troupe::router
