#pragma once
// The value below which a share of others lies, and what share something is.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace troupe::sim {

// NaN if there are no values.
inline double quantile(std::vector<float> values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at =
      std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return values[at];
}

// Of both; 0 of nothing.
inline double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

}  // namespace troupe::sim
