#pragma once
// Load test of a cluster without faults, for capacity planning. A load is a list of phases with rates. The
// result has one row per second of virtual time, and the spread of work and hits over the nodes.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/clients.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct LoadPhase {
  std::string name;
  Duration lasts;
  double requests_per_s = 0;  // used if `of_capacity` is 0
  double of_capacity = 0;     // relative to the capacity, found in phases with `measures`
  bool measures = false;  // the second half counts for the capacity; the highest of all such phases is used
};

struct LoadOptions {
  Scenario scenario;  // faults are ignored
  std::vector<LoadPhase> phases;
  TracedRequests requests;         // replaces the phases' rates if not null; users and items are the world's
  std::uint64_t requests_max = 0;  // ends the load; 0 = only the phases do
  std::function<void(double share_done)> progress;
};

// One second of virtual time.
struct LoadSecond {
  double offered = 0, answered = 0, refused = 0, expired = 0;  // number of requests
  double p50_ms = 0, p99_ms = 0;                               // of the answered requests; NaN = none
  double in_flight = 0;                                        // in the routers, at the end of the second
  double waiting = 0;      // plans in the inference workers, at the end of the second
  double resident_mb = 0;  // of the simulating process
};

struct LoadPhaseResult {
  std::string name;
  // Requests per second where they are rates.
  double from_s = 0, to_s = 0, offered = 0, answered = 0, p50_ms = 0, p99_ms = 0;
};

struct LoadResult {
  std::vector<LoadSecond> seconds;
  std::vector<LoadPhaseResult> phases;
  std::vector<Violation> violations;
  Tally tally;
  std::uint64_t events = 0;
  double wall_s = 0, virtual_s = 0, capacity = 0, resident_mb = 0;
  double item_hit_rate = 0, user_hit_rate = 0, token_hit_rate = 0;
  std::vector<std::uint64_t> plans_per_worker;  // ordered by node
};

LoadResult run_load(const LoadOptions& options);

}  // namespace troupe::sim
