// Reduces a failing run's list of faults to those that the failure needs (delta debugging).
#include "sim/runs/shrink.h"

#include <algorithm>

namespace troupe::sim {
namespace {

// Returns all faults except those in [from, to).
std::vector<Fault> without(const std::vector<Fault>& faults, std::size_t from, std::size_t to) {
  std::vector<Fault> rest(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(from));
  rest.insert(rest.end(), faults.begin() + static_cast<std::ptrdiff_t>(to), faults.end());
  return rest;
}

}  // namespace

std::vector<Fault> shrink(const std::vector<Fault>& faults,
                          const std::function<bool(const std::vector<Fault>&)>& fails, int runs_max) {
  std::vector<Fault> best = faults;
  int runs = 0;
  if (best.empty() || (++runs <= runs_max && fails({}))) return {};
  for (std::size_t part = (best.size() + 1) / 2; part > 0;) {
    bool shorter = false;
    for (std::size_t from = 0; from < best.size() && runs < runs_max;) {
      const std::vector<Fault> rest = without(best, from, std::min(from + part, best.size()));
      ++runs;
      if (!rest.empty() && fails(rest)) {
        best = rest;
        shorter = true;
      } else {
        from += part;
      }
    }
    if (runs >= runs_max) break;
    if (part == 1 && !shorter) break;
    part = part == 1 ? 1 : std::min((part + 1) / 2, std::max<std::size_t>(best.size() / 2, 1));
  }
  return best;
}

}  // namespace troupe::sim
