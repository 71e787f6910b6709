#pragma once
// An experiment about the split of a pool as text (HLEM §V; tests/papers/hlem): data set, depth, regime,
// policy and routing of one run, for `troupe sim --split`. What is not said is as sim/split/split_settings.h
// has it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/split/trained_policies.h"
#include "sim/split/split_run.h"

namespace troupe::deploy {

struct SplitExperiment {
  std::string name;
  std::string data = "games", regime = "steady", policy = "static:0.5", routing = "home";
  std::string trained;  // the file that `troupe train` wrote, for policies that learned
  std::uint32_t layers = 6, nodes = 4, windows = 60, warm_up = 12, oracle_draws = 0;
  double alpha = 0.5;         // at first
  double requests_per_s = 0;  // of each node; 0: the depth's
  double hot_share = -1;      // below 0: the data set's
  double users_times = 1;     // of the data set's
  double tables_tb = 5, memory_gb = 80;
  std::uint64_t seed = 1;
  bool by_window = false;  // the result has every window
};

// A JSON list of objects with the members above. Throws ImportError with the file, the experiment and what
// was expected.
std::vector<SplitExperiment> read_split_experiments(const std::string& path);
// `trained`: what its file has; outlives the run. Throws std::invalid_argument for a name that there is not.
sim::SplitRunOptions prepare(const SplitExperiment& experiment, const placement::TrainedPolicies* trained);

}  // namespace troupe::deploy
