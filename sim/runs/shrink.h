#pragma once
// Shortens a list of faults while the run with it still fails (delta debugging: Zeller and Hildebrandt 2002),
// so that what a person has to read is the few faults that matter.
#include <functional>
#include <vector>

#include "sim/scenario/faults.h"

namespace troupe::sim {

// `fails` runs the scenario with these faults; it failed with all of them. At most `runs_max` runs. The
// result is in the order of `faults`; with runs to spare, leaving out any one of its faults makes the failure
// go away.
std::vector<Fault> shrink(const std::vector<Fault>& faults,
                          const std::function<bool(const std::vector<Fault>&)>& fails, int runs_max);

}  // namespace troupe::sim
