#pragma once
// A box or a cluster as it would be served, for the simulation: configuration, model (without its weights),
// catalog and requests become a scenario whose actors are configured by the very functions that configure a
// box's (deploy/node/core_configs.h).
#include <cstdint>
#include <filesystem>
#include <string>

#include "placement/cost/cost_model.h"
#include "runtime/config/config.h"
#include "sim/runs/served_run.h"

namespace troupe::deploy {

struct ServedWorld {
  Config config;               // of each node
  std::filesystem::path data;  // catalog folder, as for import; "": the catalog in node.data_dir
  std::filesystem::path trace;
  std::uint64_t requests_max = 0;   // 0: all of the trace
  double speed = 0;                 // open loop, the trace's times so much shorter; 0: closed loop
  std::uint32_t in_flight = 4;      // in a closed loop
  std::uint32_t nodes = 1;          // all with all roles
  placement::DeviceProfile device;  // of one core, with its host work
  std::uint32_t cores = 1;          // of each node
  placement::LinkProfile link{.name = "loopback", .latency_us = 20, .bandwidth = 1.25e9};  // between nodes
  std::uint64_t seed = 1;
};

// Throws as a box does of configuration, model and catalog; ImportError of a trace that does not go with the
// catalog; std::invalid_argument of a model that is not simulated.
sim::ServedOptions served_options(const ServedWorld& world);

}  // namespace troupe::deploy
