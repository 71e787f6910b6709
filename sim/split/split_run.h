#pragma once
// One run of a pool-split experiment: a cluster of nodes under one workload, each with its own policy,
// compared with alpha*. The options determine the result.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "placement/split/split_policy.h"
#include "sim/split/split_node.h"
#include "sim/split/split_oracle.h"
#include "sim/split/split_routing.h"
#include "sim/split/split_workload.h"

namespace troupe::sim {

struct SplitRunOptions {
  SplitSizes sizes;
  SplitWorkloadOptions workload;  // of one node: users and requests per second are per node
  std::uint32_t nodes = 4;
  SplitRouting routing = SplitRouting::home;
  double alpha = 0.5;  // initial value
  double slo_us = 30'000;
  std::uint32_t warm_up = 12;  // windows that do not count
  double table_tb = 5;
  double shadow_kept = 0.98;  // as the production allocator (AllocatorConfig::kept)
  bool shadows = false;
  bool pooled = false;  // every node decides by the savings of all nodes
  double refill_per_s = SplitNodeOptions{}.refill_per_s;
  std::uint32_t oracle_draws = 0;  // of arrival times; 0 = alpha* is not searched. Needs routing `home`
  // alpha* of each window from a run of the same requests, so that it is not searched again.
  std::vector<double> best;
  // Creates the policy of node n; null = alpha stays.
  std::function<std::unique_ptr<placement::SplitPolicy>(std::uint32_t n)> policy;
  std::function<void(const SplitOracle::Window&)> on_window;  // called for each window that counts
};

struct SplitWindow {
  double hot_share = 0, alpha = 0, best = 0, p99_us = 0, kv_hits = 0, row_hits = 0, late = 0;
  std::uint64_t requests = 0;
};

struct SplitRunResult {
  std::vector<SplitWindow> windows;
  // Means over the windows that count.
  double p99_us = 0, mean_us = 0, in_time = 0, kv_hits = 0, row_hits = 0, alpha = 0;
  // Mean times of a request at the two stations without waiting; the longer one bounds the rate.
  StationTimes served;
  std::uint64_t requests = 0;
  // With an oracle: mean distance from alpha*, that between alpha*'s two halves, and for each static alpha
  // the run's P99 and its mean distance.
  double gap = 0, oracle_apart = 0, best = 0;
  std::array<double, alphas> static_p99_us{}, static_gap{};
  placement::SplitState state;  // of the first node's last window
};

SplitRunResult run_split(const SplitRunOptions& options);

// Returns the costs of a request with a history of `length` events.
RoutingCosts routing_costs(const SplitTimes& times, std::uint32_t length);
// Returns the workload of all nodes, with as many rows as the tables hold.
SplitWorkloadOptions cluster_workload(const SplitRunOptions& options, const SplitTimes& times);

}  // namespace troupe::sim
