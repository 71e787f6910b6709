#pragma once
// Quantiles and shares of measured values.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace troupe::sim {

// Returns the value at quantile `q` (0..1); NaN if there are no values. Changes their order.
template <class Value>
double quantile_in_place(std::vector<Value>& values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto at =
      std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(at));
  return static_cast<double>(values[at]);
}
inline double quantile(std::vector<float> values, double q) { return quantile_in_place(values, q); }

// Returns `part` as a fraction of `part + rest`; 0 if both are 0.
inline double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

}  // namespace troupe::sim
