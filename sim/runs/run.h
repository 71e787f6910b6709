#pragma once
// Runs one scenario from start to verdict: builds the cluster, starts clients and faults, judges every
// answer and the state in between, and counts the coverage of faults and phases.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"
#include "sim/base/violations.h"
#include "sim/cluster/phases.h"
#include "sim/cluster/tally.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct RunOptions {
  bool first_violation_ends = true;
  // Receives one line per message and fault; null = none.
  std::function<void(const std::string& line)> history;
  bool figures = false;
};

struct RunResult {
  std::uint64_t seed = 0, digest = 0, events = 0;
  std::vector<Violation> violations;                            // empty = all promises were kept
  std::array<std::uint32_t, fault_kinds> injected{}, missed{};  // missed: found nothing to act on
  FaultCoverage coverage{};
  Tally tally;
  // Filled if `figures` is set, for all nodes together: metric samples that are not 0, and how often each
  // event was logged, with the sum of the whole numbers in its fields.
  std::vector<std::string> figures;
};

RunResult run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace troupe::sim
