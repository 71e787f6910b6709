// Creates the split policies of experiments by name: those that serve, and the baselines.
#include "placement/baselines/experiment_split.h"

#include <algorithm>
#include <array>

#include "placement/baselines/bayes.h"
#include "placement/baselines/pid.h"
#include "placement/baselines/trees.h"
#include "placement/split/smart_allocator.h"

namespace troupe::placement {
namespace {

constexpr std::array<std::string_view, 2> untrained{"pid", "bayes"};
constexpr std::array<std::string_view, 3> trained{"trees", "ppo", "ppo+adapter"};

bool among(std::string_view name, const auto& names) { return std::ranges::find(names, name) != names.end(); }

std::unique_ptr<SplitPolicy> make_trained(std::string_view name, const TrainedPolicies& policies) {
  if (name == "trees") return std::make_unique<TreesSplit>(policies.trees);
  if (name == "ppo") return std::make_unique<PpoSplit>(policies.base);
  return std::make_unique<SmartAllocator>(policies.base, SmartOptions{.recovers = false});
}

}  // namespace

std::string experiment_split_names() {
  std::string names = split_names();
  for (const std::string_view name : untrained) names += ", " + std::string(name);
  for (const std::string_view name : trained) names += ", " + std::string(name);
  return names;
}

bool knows_experiment_split(std::string_view name) {
  return knows_split(name) || among(name, untrained) || among(name, trained);
}

bool trained_experiment_split(std::string_view name) { return learned_split(name) || among(name, trained); }

std::unique_ptr<SplitPolicy> make_experiment_split(std::string_view name, const ExperimentSplit& choice) {
  if (among(name, trained)) return choice.trained ? make_trained(name, *choice.trained) : nullptr;
  if (name == "pid")
    return std::make_unique<PidSplit>(PidOptions{.kv_weight = choice.kv_us, .row_weight = choice.row_us});
  if (name == "bayes") return std::make_unique<BayesSplit>();
  return make_split(name, {.trained = choice.trained, .better = choice.better});
}

}  // namespace troupe::placement
