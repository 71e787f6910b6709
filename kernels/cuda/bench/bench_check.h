#pragma once
// Checks whether a prepared work (one kernel call of the benchmark) computes the right result,
// because a wrong one is not timed.
#include <string>

#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {

// Runs the work once and compares up to `samples` samples, including the first and the last.
// Returns an empty string, or what is wrong.
std::string fault_of(const PreparedWork& work, std::size_t samples, Chance& chance);
// Checks one comparison; NaN never passes.
std::string fault_of(const CheckedSample& checked);

}  // namespace troupe::kernels::cuda
