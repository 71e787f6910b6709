// Calibrates the cost model for a device: finds efficiency, launch overhead and half saturation
// (the size at which half the peak is reached) that explain a list of timed passes best.
#include "placement/cost/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace troupe::placement {

namespace {

// Larger relative errors count linearly, not by their square (Huber loss).
constexpr double huber_delta = 0.02;
constexpr int reweightings = 12;
constexpr double loss_ratio_max = 0.98;  // a larger half saturation must reduce the loss below this fraction

// A pass at a given half saturation, relative to the measured time: `launch` is the time of its
// launches at 1 us each, `phases` the time of its phases at efficiency 1. Its relative error is
// launch_us · launch + phases / efficiency - 1.
struct FitRow {
  double launch, phases, weight;
};

struct Solution {
  double launch_us = 0, slowness = 1;  // 1 / efficiency
  double error(const FitRow& row) const { return launch_us * row.launch + slowness * row.phases - 1; }
};

double loss(const std::vector<FitRow>& rows, const Solution& solution) {
  double sum = 0;
  for (const FitRow& row : rows) {
    const double error = std::abs(solution.error(row));
    sum += error <= huber_delta ? error * error / (2 * huber_delta) : error - huber_delta / 2;
  }
  return sum;
}

// Solves weighted least squares under launch_us >= 0 and slowness >= 1. If the unconstrained
// optimum violates a bound, the optimum lies on one of the two edges.
Solution solve(const std::vector<FitRow>& rows) {
  double ll = 0, lp = 0, pp = 0, l = 0, p = 0;
  for (const FitRow& r : rows) {
    ll += r.weight * r.launch * r.launch;
    lp += r.weight * r.launch * r.phases;
    pp += r.weight * r.phases * r.phases;
    l += r.weight * r.launch;
    p += r.weight * r.phases;
  }
  const double determinant = ll * pp - lp * lp;
  if (determinant > 1e-9 * ll * pp) {
    const Solution free{(l * pp - p * lp) / determinant, (p * ll - l * lp) / determinant};
    if (free.launch_us >= 0 && free.slowness >= 1) return free;
  }
  const Solution without_launches{0, std::max(1.0, p / pp)};
  const Solution at_peak{ll > 0 ? std::max(0.0, (l - lp) / ll) : 0, 1};
  const auto squares = [&](const Solution& solution) {
    double sum = 0;
    for (const FitRow& row : rows) sum += row.weight * solution.error(row) * solution.error(row);
    return sum;
  };
  return squares(without_launches) <= squares(at_peak) ? without_launches : at_peak;
}

struct Fit {
  double half_tokens, bandwidth, loss;
  Solution solution;
};

Fit fit_at(const DeviceProfile& start, std::span<const TimedPass> passes, double half_tokens,
           double bandwidth) {
  DeviceProfile unit = start;
  unit.efficiency = unit.launch_us = 1;
  unit.half_tokens = half_tokens;
  unit.bandwidth = bandwidth;
  std::vector<FitRow> rows;
  for (const TimedPass& pass : passes) {
    const PassTime time = CostModel(unit, pass.shape).pass_time(pass.counts);
    rows.push_back({time.launch / pass.us, (time.linear + time.attention) / pass.us, 1});
  }
  Solution solution = solve(rows);
  for (int i = 0; i < reweightings; ++i) {
    for (FitRow& row : rows) row.weight = 1 / std::max(huber_delta, std::abs(solution.error(row)));
    solution = solve(rows);
  }
  return {half_tokens, bandwidth, loss(rows, solution), solution};
}

Fit best_half_tokens(const DeviceProfile& start, std::span<const TimedPass> passes, double bandwidth) {
  Fit best = fit_at(start, passes, 0, bandwidth);
  const auto attempt = [&](double half_tokens, double needed) {
    const Fit fit = fit_at(start, passes, half_tokens, bandwidth);
    if (fit.loss < needed * best.loss) best = fit;
  };
  for (double half_tokens = 0.25; half_tokens <= 4096; half_tokens *= 2) attempt(half_tokens, loss_ratio_max);
  if (best.half_tokens > 0)
    for (double step = 1.5; step > 1.005; step = std::sqrt(step)) {
      const double center = best.half_tokens;
      for (const double half_tokens : {center / step, center * step}) attempt(half_tokens, 1);
    }
  return best;
}

void check_passes(std::span<const TimedPass> passes, std::size_t least) {
  if (passes.size() < least)
    throw std::invalid_argument("there are " + std::to_string(passes.size()) +
                                " timed passes; expected at least " + std::to_string(least));
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const std::string where = "timed pass " + std::to_string(i);
    if (passes[i].counts.new_tokens == 0)
      throw std::invalid_argument(where + ": new_tokens is 0; expected at least 1");
    if (!(passes[i].us > 0 && std::isfinite(passes[i].us)))
      throw std::invalid_argument(where + ": us is " + std::to_string(passes[i].us) +
                                  "; expected a positive number of microseconds");
  }
}

}  // namespace

DeviceProfile fit_device(const DeviceProfile& start, std::span<const TimedPass> passes, Bandwidth bandwidth) {
  check_passes(passes, 3);
  Fit best = best_half_tokens(start, passes, start.bandwidth);
  const auto attempt = [&](double factor) {
    const Fit fit = best_half_tokens(start, passes, start.bandwidth * factor);
    if (fit.loss < best.loss) best = fit;
  };
  if (bandwidth == Bandwidth::fitted) {
    for (double factor = 0.25; factor <= 64; factor *= 2) attempt(factor);
    for (double step = 1.5; step > 1.02; step = std::sqrt(step)) {
      const double center = best.bandwidth / start.bandwidth;
      for (const double factor : {center / step, center * step}) attempt(factor);
    }
  }
  DeviceProfile fitted = start;
  fitted.half_tokens = best.half_tokens;
  fitted.bandwidth = best.bandwidth;
  fitted.efficiency = 1 / best.solution.slowness;
  if (start.launches_per_layer > 0) fitted.launch_us = best.solution.launch_us;
  return fitted;
}

FitErrors errors_of(const DeviceProfile& device, std::span<const TimedPass> passes) {
  check_passes(passes, 1);
  std::vector<double> errors;
  for (const TimedPass& pass : passes)
    errors.push_back(std::abs(CostModel(device, pass.shape).prefill_us(pass.counts) / pass.us - 1));
  std::ranges::sort(errors);
  const std::size_t half = errors.size() / 2;
  return {errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2, errors.back()};
}

}  // namespace troupe::placement
