#pragma once
// Runs many seeds: each once, or twice where requested (the digests must agree). Adds up the results and
// shortens the fault lists of failing seeds. Seeds are independent, so they run on several threads; the
// result does not depend on the number of threads.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/runs/run.h"

namespace troupe::sim {

struct SwarmOptions {
  std::uint64_t first = 1, last = 1;
  DrawLimits limits;
  double twice_share = 0.01;  // share of the seeds that run twice
  unsigned threads = 1;
  std::vector<int> promises;                         // only violations of these are failures; empty = all
  std::uint64_t failures_max = 5;                    // no new seeds are begun after this many
  int shrink_runs = 150;                             // per failure
  std::function<void(std::uint64_t done)> progress;  // called by one thread at a time
};

struct Failure {
  std::uint64_t seed = 0;
  Violation violation;        // the first one
  std::vector<Fault> faults;  // of the scenario
  std::vector<Fault> shrunk;  // still enough for a violation of the same promise
};

struct ShareCheck {
  int promise = 0;
  std::string what;
  std::uint64_t count = 0, good = 0, count_min = 0;  // with a smaller count the check is not judged
  double share_min = 0;
  bool judged() const { return count >= count_min; }
  bool broken() const {
    return judged() && static_cast<double>(good) < share_min * static_cast<double>(count);
  }
};

struct SwarmResult {
  std::uint64_t seeds = 0, twice = 0, events = 0;
  double seconds = 0;  // of all threads together
  Tally tally;
  std::array<std::uint64_t, fault_kinds> injected{}, missed{};
  std::array<std::array<std::uint64_t, phases>, fault_kinds> coverage{};
  std::vector<std::size_t> faults_per_seed;
  std::vector<Failure> failures;  // ordered by seed

  std::size_t median_faults() const;
  // Returns the pairs of a drawn fault and a phase that never met, as "kill × pull".
  std::vector<std::string> never_met() const;
  // Checks that need many seeds (promise 6): the shares of requests answered some time after a kill. A
  // check with too few requests does not fail.
  std::vector<ShareCheck> share_checks() const;
  bool kept_all() const;  // true if every seed and the sums kept all promises
};

SwarmResult run_swarm(const SwarmOptions& options);

}  // namespace troupe::sim
