#pragma once
// A cluster under load and without faults: what capacity planning asks for. A load is a list of phases, each
// with its rate; the result is a row per second of virtual time, and how work and hits were spread over the
// nodes.
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
  double requests_per_s = 0;  // if `of_capacity` is 0
  double of_capacity = 0;     // times what the phase `measures` answered
  bool measures = false;      // its second half counts for the capacity: the most of all such phases
};

struct LoadOptions {
  Scenario scenario;  // its faults are ignored
  std::vector<LoadPhase> phases;
  TracedRequests requests;  // instead of the phases' rates, if there are any; of the world's users and items
  std::uint64_t requests_max = 0;  // ends the load; 0: only the phases do
  std::function<void(double share_done)> progress;
};

// One second of virtual time.
struct LoadSecond {
  double offered = 0, answered = 0, refused = 0, expired = 0;  // requests
  double p50_ms = 0, p99_ms = 0;                               // of the answered ones; NaN if there are none
  double in_flight = 0;                                        // in the routers, at its end
  double waiting = 0;                                          // plans in the inference workers, at its end
  double resident_mb = 0;                                      // of the simulating process
};

struct LoadPhaseResult {
  std::string name;
  double from_s = 0, to_s = 0, offered = 0, answered = 0, p50_ms = 0,
         p99_ms = 0;  // per second, where it is a rate
};

struct LoadResult {
  std::vector<LoadSecond> seconds;
  std::vector<LoadPhaseResult> phases;
  std::vector<Violation> violations;
  Tally tally;
  std::uint64_t events = 0;
  double wall_s = 0, virtual_s = 0, capacity = 0, resident_mb = 0;
  double item_hit_rate = 0, user_hit_rate = 0, token_hit_rate = 0;
  std::vector<std::uint64_t> plans_per_worker;  // in order of node
};

LoadResult run_load(const LoadOptions& options);

}  // namespace troupe::sim
