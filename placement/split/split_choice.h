#pragma once
// Creates the split policies that serve by name, as settings give them: "static:0.4", "marginal",
// "smart". Experiments also have baselines (placement/baselines/experiment_split.h).
#include <memory>
#include <string>
#include <string_view>

#include "placement/split/split_policy.h"
#include "placement/split/trained_policies.h"

namespace troupe::placement {

// Least additional savings, as a fraction, for which a serving node moves the split.
inline constexpr double split_gain_min = 0.01;

struct SplitChoice {
  const TrainedPolicies* trained = nullptr;  // for "smart"
  double least = 0.02;                       // for "marginal": minimum share of the pool of each area
  double better = 0;                         // for "marginal": MarginalOptions::better
};

std::string split_names();  // "static:0..1, marginal, smart"
bool knows_split(std::string_view name);
bool learned_split(std::string_view name);  // true if the policy needs trained weights
// Returns null for an unknown name, and for a policy that needs trained weights when choice.trained
// is null.
std::unique_ptr<SplitPolicy> make_split(std::string_view name, const SplitChoice& choice);

}  // namespace troupe::placement
