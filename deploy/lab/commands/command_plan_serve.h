#pragma once
// Options of `troupe-lab plan --serve`, which finds how many nodes a load needs by simulating clusters.
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/commands/commands.h"
#include "deploy/lab/experiments/serve_trial.h"
#include "deploy/lab/planning/capacity.h"

namespace troupe::deploy {

struct PlanServeOptions {
  TrialOptions serve;
  ConfigOptions box;        // with --model or --config: the configuration of the simulated nodes
  std::string data;         // folder of its catalog; "": the catalog in node.data_dir
  std::uint32_t cores = 0;  // cores per node with --model; 0 = as many as this machine has
  CapacityTarget target;
  std::string trace_file;
  std::vector<std::string> nodes;  // "A100-40G=3.2"
  std::string json;
};

// Returns the exit status: 1 if no cluster meets the target; the reason is printed.
// Throws std::invalid_argument, ImportError.
int run_plan_serve(const PlanServeOptions& options);

}  // namespace troupe::deploy
