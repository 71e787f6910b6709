#pragma once
// Simulates a deployment as it is served (sim/scenario/deployment_config.h) with the requests of a trace,
// like `bench rank --trace` on a real one. After item blocks are precomputed, requests come with a fixed
// number in flight or at their times. The figures are those of the benchmark, so that the two can be
// compared.
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "placement/cost/host_work.h"
#include "sim/cluster/clients.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

struct DeploymentOptions {
  Scenario scenario;  // with `served`; faults are ignored
  TracedRequests requests;
  std::uint64_t total = 0;            // number of requests
  std::size_t in_flight = 1;          // 0 = requests come at their times
  Duration ahead_max{3'600'000'000};  // limit of the precomputation
  std::function<void(double share_done)> progress;
};

struct DeploymentResult {
  std::uint64_t requests = 0, answered = 0, errors = 0;
  double seconds = 0, p50_ms = 0, p99_ms = 0;  // virtual time, from the first request to the last outcome
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint64_t plans_user = 0, user_blocks_hit = 0, user_blocks_computed = 0, item_blocks_hit = 0,
                item_blocks_computed = 0;
  double kernels_s = 0;                                      // of batches, on one processor
  std::array<double, placement::host_components> host_us{};  // charged beside them, by component
  placement::HostUnits units;                                // work units of that charge
  double ahead_s = 0;                                        // time until precomputation ended
  std::uint64_t items_ahead = 0, events = 0;
  std::vector<std::uint64_t> plans_per_worker;
  std::vector<Violation> violations;
};

DeploymentResult run_deployment(const DeploymentOptions& options);

}  // namespace troupe::sim
