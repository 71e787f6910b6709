#pragma once
// Many seeds: runs each, twice where asked (their digests must agree), adds up what happened, and shortens
// the fault list of those that fail. Seeds are independent of each other, so they run on several threads; the
// result does not depend on how many.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/runs/run.h"

namespace troupe::sim {

struct SwarmOptions {
  std::uint64_t first = 1, last = 1;
  DrawLimits limits;
  double twice_share = 0.01;  // of the seeds, that run twice
  unsigned threads = 1;
  std::vector<int> promises;                         // only what breaks one of these is a failure; empty: all
  std::uint64_t failures_max = 5;                    // no new seeds are begun after so many
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
  std::uint64_t count = 0, good = 0, count_min = 0;  // with fewer nothing is said
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
  std::array<std::array<std::uint64_t, phases>, fault_kinds> meetings{};
  std::vector<std::size_t> faults_per_seed;
  std::vector<Failure> failures;  // in order of seed

  std::size_t median_faults() const;
  // Pairs of a drawn fault and a phase that never met, "kill × pull".
  std::vector<std::string> never_met() const;
  // What no single seed shows (promise 6): the shares of requests that are answered some time after a kill.
  // Fails only with enough of them.
  std::vector<ShareCheck> share_checks() const;
  bool kept_all() const;  // promises, in each seed and in sum
};

SwarmResult run_swarm(const SwarmOptions& options);

}  // namespace troupe::sim
