#pragma once
// A box or a cluster as it is served (sim/scenario/served.h), asked the requests of a trace as `bench rank
// --trace` asks a real one: after its item blocks were computed ahead, so many at a time, or each at its
// time. The figures are those that the benchmark has, so that the two can stand side by side.
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "placement/cost/host_work.h"
#include "sim/cluster/clients.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct ServedOptions {
  Scenario scenario;  // with `served`; its faults are ignored
  TracedRequests requests;
  std::uint64_t total = 0;            // of them
  std::size_t in_flight = 1;          // 0: requests come at their times
  Duration ahead_max{3'600'000'000};  // for what is computed ahead
  std::function<void(double share_done)> progress;
};

struct ServedResult {
  std::uint64_t requests = 0, answered = 0, errors = 0;
  double seconds = 0, p50_ms = 0, p99_ms = 0;  // of virtual time, from the first request to the last outcome
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint64_t plans_user = 0, user_blocks_hit = 0, user_blocks_computed = 0, item_blocks_hit = 0,
                item_blocks_computed = 0;
  double kernels_s = 0;                                 // of passes, on one processor
  std::array<double, placement::host_rooms> host_us{};  // what was charged beside them
  placement::HostUnits units;                           // and for how much
  double ahead_s = 0;                                   // until what is computed ahead was there
  std::uint64_t items_ahead = 0, events = 0;
  std::vector<std::uint64_t> plans_per_worker;
  std::vector<Violation> violations;
};

ServedResult run_served(const ServedOptions& options);

}  // namespace troupe::sim
