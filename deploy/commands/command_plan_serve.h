#pragma once
// `troupe plan --serve`: its options.
#include <string>
#include <vector>

#include "deploy/experiments/serve_trial.h"
#include "deploy/planning/capacity.h"

namespace troupe::deploy {

struct PlanServeOptions {
  TrialOptions serve;
  CapacityTarget target;
  std::string trace_file;
  std::vector<std::string> nodes;  // "A100-40G=3.2"
  std::string json;
};

// Throws std::invalid_argument, ImportError. 1: nobody holds the target, which is told with the reason.
int run_plan_serve(const PlanServeOptions& options);

}  // namespace troupe::deploy
