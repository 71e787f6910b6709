#pragma once
// Requests counted by how long they took, in steps of a ninth: few enough numbers for a report, fine enough
// for a P99. Counts since a start are lists of these; a window's are the differences of two.
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::placement {

inline constexpr std::size_t latency_steps = 160;  // of 2^(1/8): from 64 us to a minute
std::size_t latency_step(std::int64_t us);
double step_ends_us(std::size_t step);

// So long took this share of those counted, at most; 0 of none.
double latency_quantile(std::span<const std::uint64_t> counts, double share);
// The share of those counted that took longer, as far as steps tell; 0 of none.
double share_beyond(std::span<const std::uint64_t> counts, double us);

}  // namespace troupe::placement
