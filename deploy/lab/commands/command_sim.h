#pragma once
// Parts of `troupe-lab sim`: a swarm of seeds, the replay of one seed, and a load on a cluster of a
// given size, either drawn or from a request trace.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/commands/commands.h"
#include "sim/runs/load.h"
#include "sim/runs/swarm.h"
#include "sim/scenario/scenario.h"

namespace troupe::deploy {

struct SimCommandOptions {
  ConfigOptions box;                // with --model or --config: the simulated nodes' configuration
  std::string data;                 // folder of its catalog; "": the catalog in node.data_dir
  std::string memory;               // for keys and values; "": pool.memory, or the measured run's
  std::string compare;              // result file of bench rank
  std::vector<std::string> bounds;  // maximum errors, FIGURE=FRACTION each
  // requests in flight in a closed loop; 0 = at the trace's times, or as in the measured run
  std::uint32_t in_flight = 0;
  std::uint32_t cores = 0;              // cores per node; 0 = as many as this machine has
  std::uint32_t routers = 0;            // nodes of a simulated deployment that have a router; 0 = all
  std::string seeds;                    // "1..2000"
  std::optional<std::uint64_t> replay;  // the seed to run
  bool messages = false, figures = false;
  std::string keep;  // with replay: numbers of the only faults to inject, such as "2,5"; "none"
  std::optional<std::uint32_t> nodes;
  std::optional<double> minutes;
  std::string faults;  // kinds of faults to draw from, such as "kill,pause"; "none"
  bool members = false;
  std::string json, report;
  unsigned threads = 0;  // seeds run at the same time; 0 = one per core
  // Options of a load without faults.
  std::uint64_t items = 0, requests = 0;
  bool overload = false, refresh = false;
  std::string trace;  // file of a request trace
  double speed = 1;
  std::string policy;               // "" = planner, or with a model that of its configuration
  std::uint64_t seed = 1;           // of the simulated world
  std::string device = "A100-40G";  // name of a known device, or file of a profile
  std::string experiments, split;   // files
  std::string shape = "qwen2-1.5b", link = "100gbps";
};

// All return the exit status and throw std::invalid_argument for invalid combinations of options.
int run_sim_swarm(const SimCommandOptions& options);
int run_sim_replay(const SimCommandOptions& options);
int run_sim_load(const SimCommandOptions& options);
int run_sim_trace(const SimCommandOptions& options);
int run_sim_served(const SimCommandOptions& options);
int run_sim_refresh(const SimCommandOptions& options);
int run_sim_experiments(const SimCommandOptions& options);
int run_sim_split(const SimCommandOptions& options);

inline constexpr double item_tokens_mean = 7;  // mean tokens of an item in the simulated world
// Users, items and prompt sizes of a load.
struct Demand {
  std::uint32_t items = 10'000, users = 2'500, tenants = 1, candidates = 20;
  double tokens_around = 40;  // mean tokens of a prompt except candidates: profile and prompt form
};
// Returns a scenario with the options' cluster size and hardware, at half of its capacity.
sim::Scenario planning_scenario(const SimCommandOptions& options, const Demand& demand);
// Runs the load; prints the result and writes the files that the options name.
int run_planned(const SimCommandOptions& options, sim::LoadOptions load);

// Returns the command that replays a failing seed with the smallest set of faults that fails.
std::string replay_command(const sim::Failure& failure, const SimCommandOptions& options);

sim::DrawLimits draw_limits(const SimCommandOptions& options);

}  // namespace troupe::deploy
