#pragma once
// Creates split policies by name, as settings and experiments give them: "static:0.4", "pid",
// "bayes", "trees", "ppo", "ppo+adapter", "smart", "marginal".
#include <memory>
#include <string>
#include <string_view>

#include "placement/split/split_policy.h"
#include "placement/split/trained_policies.h"

namespace troupe::placement {

struct SplitChoice {
  const TrainedPolicies* trained = nullptr;  // for "trees", "ppo", "ppo+adapter" and "smart"
  // For "pid": cost of a request whose keys and values, or rows, are missing.
  double kv_us = 1, row_us = 1;
  double least = 0.02;  // for "marginal": minimum share of the pool of each area
  double better = 0;    // for "marginal": MarginalOptions::better
};

std::string split_names();  // "static:0..1, pid, bayes, …"
bool knows_split(std::string_view name);
bool learned_split(std::string_view name);  // true if the policy needs trained weights
// Returns null for an unknown name, and for a policy that needs trained weights when choice.trained
// is null.
std::unique_ptr<SplitPolicy> make_split(std::string_view name, const SplitChoice& choice);

}  // namespace troupe::placement
