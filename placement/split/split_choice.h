#pragma once
// Split policies by name, as knobs and experiments say them: "static:0.4", "pid", "bayes", "trees", "ppo",
// "ppo+adapter", "smart", "marginal".
#include <memory>
#include <string>
#include <string_view>

#include "placement/split/split_policy.h"
#include "placement/split/trained_policies.h"

namespace troupe::placement {

struct SplitChoice {
  const TrainedPolicies* trained = nullptr;  // for "trees", "ppo", "ppo+adapter" and "smart"
  double kv_us = 1,
         row_us = 1;    // for "pid": what a request costs whose keys and values, or rows, are missing
  double least = 0.02;  // for "marginal": of the pool, that each area keeps
  double better = 0;    // for "marginal": as MarginalOptions has it
};

std::string split_names();  // "static:0..1, pid, bayes, …"
bool knows_split(std::string_view name);
bool learned_split(std::string_view name);  // needs what was trained
// Null for a name that is none, or for one that needs what was trained where nothing is.
std::unique_ptr<SplitPolicy> make_split(std::string_view name, const SplitChoice& choice);

}  // namespace troupe::placement
