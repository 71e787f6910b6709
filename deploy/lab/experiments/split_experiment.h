#pragma once
// An experiment about the split of a pool as data (HLEM §V; tests/papers/hlem): data set, depth, regime,
// policy and routing of one run, for `troupe-lab sim --split`. sim/split/split_settings.h defines everything
// else.
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
  std::string trained;  // file written by `troupe-lab train`, for learned policies
  std::uint32_t layers = 6, nodes = 4, windows = 60, warm_up = 12, oracle_draws = 0;
  double alpha = 0.5;         // share of the pool for rows at the start
  double requests_per_s = 0;  // of each node; 0 = the depth's default
  double hot_share = -1;      // below 0 = the data set's
  double users_times = 1;     // users over the data set's users
  double tables_tb = 5, memory_gb = 80;
  std::uint32_t length = 0;  // events of every history; 0 = drawn from 5,000 to 15,000
  std::uint32_t tables = 0;  // embedding tables, each with one row per event; 0 = the setting's
  // Constants of the world that the paper leaves open; below 0 = those of sim/split/split_settings.cc.
  double efficiency = -1, gather = -1, return_s = -1, return_sigma = -1, visit_requests = -1, row_skew = -1;
  double refill_gb_per_s = -1;
  // For `marginal`, below 0 = the serving policy's: what is kept of earlier windows, and the least gain.
  double kept = -1, better = -1;
  bool pooled = false;      // `marginal` decides by the savings of all nodes
  double pid_row_cost = 1;  // for `pid`: factor of the rows' cost
  std::uint64_t seed = 1;
  bool by_window = false;  // include every window in the result
};

// Reads a JSON list of objects with the members above. Throws ImportError, which names the file, the
// experiment and the expected value.
std::vector<SplitExperiment> read_split_experiments(const std::string& path);
// Turns an experiment into a simulation. `trained` is the content of the experiment's file and outlives the
// run; null = no file. Throws std::invalid_argument for an unknown name.
sim::SplitRunOptions prepare(const SplitExperiment& experiment, const placement::TrainedPolicies* trained);

}  // namespace troupe::deploy
