#pragma once
// Shortens a list of faults while the run still fails with it (delta debugging: Zeller and Hildebrandt
// 2002), so that a person reads only the faults that matter.
#include <functional>
#include <vector>

#include "sim/scenario/faults.h"

namespace troupe::sim {

// `fails` runs the scenario with a list of faults; it must fail with all of them. It is called at most
// `runs_max` times. The result keeps the order of `faults`. If enough runs are left, removing any one fault
// from the result makes the failure disappear.
std::vector<Fault> shrink(const std::vector<Fault>& faults,
                          const std::function<bool(const std::vector<Fault>&)>& fails, int runs_max);

}  // namespace troupe::sim
