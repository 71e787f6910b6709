#pragma once
// Creates split policies by name, as experiments give them: those that serve
// (placement/split/split_choice.h), HLEM's baselines "pid", "bayes" and "trees", and its base policy
// alone: "ppo", or "ppo+adapter" with the residual that is learned while serving.
#include <memory>
#include <string>
#include <string_view>

#include "placement/split/split_choice.h"

namespace troupe::placement {

struct ExperimentSplit {
  const TrainedPolicies* trained = nullptr;  // for "trees", "ppo", "ppo+adapter" and "smart"
  // For "pid": cost of a request whose keys and values, or rows, are missing.
  double kv_us = 1, row_us = 1;
  double better = 0;  // for "marginal": MarginalOptions::better
};

std::string experiment_split_names();  // "static:0..1, marginal, smart, pid, bayes, …"
bool knows_experiment_split(std::string_view name);
bool trained_experiment_split(std::string_view name);  // true if the policy needs trained weights
// Returns null for an unknown name, and for a policy that needs trained weights when choice.trained
// is null.
std::unique_ptr<SplitPolicy> make_experiment_split(std::string_view name, const ExperimentSplit& choice);

}  // namespace troupe::placement
