#pragma once
// Counts requests by latency in steps of about 9 %: few enough numbers for a report, fine enough
// for a P99. Reports contain counts since the start; subtracting two of them gives the counts of a
// window.
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::placement {

inline constexpr std::size_t latency_steps = 160;  // factor 2^(1/8) each: from 64 us to a minute
std::size_t latency_step(std::int64_t us);
double step_ends_us(std::size_t step);

// Returns an upper bound of the latency of the fastest `share` of the requests; 0 if there are
// none.
double latency_quantile(std::span<const std::uint64_t> counts, double share);
// Returns the share of the requests that took longer than `us`, to the precision of a step; 0 if
// there are none.
double share_beyond(std::span<const std::uint64_t> counts, double us);

}  // namespace troupe::placement
