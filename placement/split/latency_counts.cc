// Counts latencies in steps of about 9 % and reads quantiles and shares from the counts. So a
// report of a few numbers is enough for a P99.
#include "placement/split/latency_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::placement {
namespace {

constexpr double first_us = 64, steps_per_octave = 8;

std::uint64_t total(std::span<const std::uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

}  // namespace

double step_ends_us(std::size_t step) {
  return first_us * std::exp2(static_cast<double>(step) / steps_per_octave);
}

std::size_t latency_step(std::int64_t us) {
  if (static_cast<double>(us) <= first_us) return 0;
  const double step = std::ceil(std::log2(static_cast<double>(us) / first_us) * steps_per_octave);
  return static_cast<std::size_t>(std::min(step, static_cast<double>(latency_steps - 1)));
}

double latency_quantile(std::span<const std::uint64_t> counts, double share) {
  const std::uint64_t all = total(counts);
  if (all == 0) return 0;
  const auto within = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(all)));
  std::uint64_t seen = 0;
  for (std::size_t step = 0; step < counts.size(); ++step)
    if ((seen += counts[step]) >= within) return step_ends_us(step);
  return step_ends_us(counts.size() - 1);
}

double share_beyond(std::span<const std::uint64_t> counts, double us) {
  const std::uint64_t all = total(counts);
  std::uint64_t beyond = 0;
  for (std::size_t step = 1; step < counts.size(); ++step)
    if (step_ends_us(step - 1) >= us) beyond += counts[step];
  return all > 0 ? static_cast<double>(beyond) / static_cast<double>(all) : 0;
}

}  // namespace troupe::placement
