#pragma once
// Prepares the simulation of a node or cluster as it would be served. Configuration, model (without its
// weights), catalog and requests become a scenario. Its actors are configured by the same functions that
// configure a real node's (deploy/node/core_configs.h).
#include <cstdint>
#include <filesystem>
#include <string>

#include "placement/cost/cost_model.h"
#include "runtime/config/config.h"
#include "sim/runs/deployment_run.h"

namespace troupe::deploy {

struct DeploymentInput {
  Config config;               // of each node
  std::filesystem::path data;  // catalog folder, as for import; "" = the catalog in node.data_dir
  std::filesystem::path trace;
  std::uint64_t requests_max = 0;   // first requests of the trace to use; 0 = all
  double speed = 0;                 // speed-up of the trace's times in an open loop; 0 = closed loop
  std::uint32_t in_flight = 4;      // requests in flight in a closed loop
  std::uint32_t nodes = 1;          // each is a worker; the first two have a cache-meta
  std::uint32_t routers = 0;        // the first nodes that have a router; 0 = all
  placement::DeviceProfile device;  // of one core, including host work
  std::uint32_t cores = 1;          // of each node
  placement::LinkProfile link{.name = "loopback", .latency_us = 20, .bandwidth = 1.25e9};  // between nodes
  std::uint64_t seed = 1;
};

// Throws what a node throws for its configuration, model and catalog; ImportError if the trace does not match
// the catalog; std::invalid_argument for a model that cannot be simulated, and for more routers than
// nodes.
sim::DeploymentOptions deployment_options(const DeploymentInput& world);

}  // namespace troupe::deploy
