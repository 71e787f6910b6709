#pragma once
// The parts of `troupe sim`: a swarm of seeds, the replay of one, and a load on a cluster of a given size,
// drawn or from a request trace.
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
  BoxOptions box;                       // with --model or --config: what is simulated is served so
  std::string data;                     // its catalog; "": the one in node.data_dir
  std::string memory;                   // for keys and values; "": pool.memory, or as measured
  std::string compare;                  // a result of bench rank
  std::vector<std::string> bounds;      // of errors, FIGURE=SHARE
  std::uint32_t in_flight = 0;          // in a closed loop; 0: at the trace's times, or as measured
  std::uint32_t cores = 0;              // of each node; 0: as many as this machine has
  std::string seeds;                    // "1..2000"
  std::optional<std::uint64_t> replay;  // a seed
  bool messages = false, figures = false;
  std::string keep;  // with replay: only these faults, "2,5" by their numbers; "none"
  std::optional<std::uint32_t> nodes;
  std::optional<double> minutes;
  std::string faults;  // "kill,pause"; "none"
  bool members = false;
  std::string json, report;
  unsigned threads = 0;  // 0: one per core
  // A load instead of faults.
  std::uint64_t items = 0, requests = 0;
  bool overload = false, refresh = false;
  std::string trace;  // a file
  double speed = 1;
  std::string policy = "bat";
  std::uint64_t seed = 1;           // of the simulated world
  std::string device = "A100-40G";  // a known one, or the file of a profile
  std::string experiments, split;   // files
  std::string shape = "qwen2-1.5b", link = "100gbps";
};

// Throw std::invalid_argument for options that make no sense; return the exit status.
int run_sim_swarm(const SimCommandOptions& options);
int run_sim_replay(const SimCommandOptions& options);
int run_sim_load(const SimCommandOptions& options);
int run_sim_trace(const SimCommandOptions& options);
int run_sim_served(const SimCommandOptions& options);
int run_sim_refresh(const SimCommandOptions& options);
int run_sim_experiments(const SimCommandOptions& options);
int run_sim_split(const SimCommandOptions& options);

inline constexpr double item_tokens_mean = 7;  // of the simulated world
// What a load asks for.
struct Demand {
  std::uint32_t items = 10'000, users = 2'500, tenants = 1, candidates = 20;
  double tokens_around = 40;  // the candidates: the profile and the prompt's frame, in the mean
};
// A cluster of the options' size and hardware for it.
sim::Scenario planning_scenario(const SimCommandOptions& options, const Demand& demand);
// Runs the load, and says what came of it on the screen and in the files that the options name.
int run_planned(const SimCommandOptions& options, sim::LoadOptions load);

// What runs a failing seed again, with the faults that are enough.
std::string replay_command(const sim::Failure& failure, const SimCommandOptions& options);

sim::DrawLimits draw_limits(const SimCommandOptions& options);

}  // namespace troupe::deploy
