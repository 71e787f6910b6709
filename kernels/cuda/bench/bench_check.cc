// Checks a benchmark's work before it is timed: every output is written, and samples of the results
// are within their bounds.
#include "kernels/cuda/bench/bench_check.h"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::cuda {

std::string fault_of(const CheckedSample& checked) {
  if (checked.got.size() != checked.want.size() || checked.got.empty())
    return std::to_string(checked.got.size()) + " numbers; expected " + std::to_string(checked.want.size());
  for (std::size_t i = 0; i < checked.got.size(); ++i) {
    const double bound = checked.bound.size() == 1 ? checked.bound[0] : checked.bound.at(i);
    if (!(std::abs(checked.got[i] - checked.want[i]) <= bound))
      return "number " + std::to_string(i) + " is " + std::to_string(checked.got[i]) + "; expected " +
             std::to_string(checked.want[i]) + " within " + std::to_string(bound);
  }
  return "";
}

std::string fault_of(const PreparedWork& work, std::size_t samples, Chance& chance) {
  Stream stream;
  if (work.before) work.before(stream);
  work.run(stream);
  stream.synchronize();
  for (const auto& output : work.outputs)
    if (const auto number = output->find_poison())
      return "number " + std::to_string(*number) + " was not written";
  for (std::size_t i = 0; i < std::min(samples, work.checks); ++i) {
    const std::size_t sample = work.checks <= samples ? i
                               : i == 0               ? 0
                               : i == 1               ? work.checks - 1
                                                      : chance() % work.checks;
    if (const std::string fault = fault_of(work.check(sample)); !fault.empty())
      return "sample " + std::to_string(sample) + ": " + fault;
  }
  return "";
}

}  // namespace troupe::kernels::cuda
