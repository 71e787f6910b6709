#pragma once
// `troupe plan --serve`: its options.
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/commands/commands.h"
#include "deploy/lab/experiments/serve_trial.h"
#include "deploy/planning/capacity.h"

namespace troupe::deploy {

struct PlanServeOptions {
  TrialOptions serve;
  BoxOptions box;           // with --model or --config: what is served so
  std::string data;         // its catalog; "": the one in node.data_dir
  std::uint32_t cores = 0;  // of each node then; 0: as many as this machine has
  CapacityTarget target;
  std::string trace_file;
  std::vector<std::string> nodes;  // "A100-40G=3.2"
  std::string json;
};

// Throws std::invalid_argument, ImportError. 1: nobody holds the target, which is told with the reason.
int run_plan_serve(const PlanServeOptions& options);

}  // namespace troupe::deploy
