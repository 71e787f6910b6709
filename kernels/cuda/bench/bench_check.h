#pragma once
// Whether a prepared work computes what it should.
#include <string>

#include "kernels/cuda/bench/bench_work.h"

namespace troupe::kernels::cuda {

// Runs it once and compares up to `samples` samples, the first and the last among them. Empty, or what is
// wrong.
std::string fault_of(const PreparedWork& work, std::size_t samples, Chance& chance);
// Of one comparison. NaN never passes.
std::string fault_of(const Checked& checked);

}  // namespace troupe::kernels::cuda
