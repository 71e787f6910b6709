#pragma once
// The parts of `troupe sim`: a swarm of seeds, the replay of one, and a load on a cluster of a given size.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/commands.h"
#include "sim/scenario.h"

namespace troupe::deploy {

struct SimCommandOptions {
  std::string seeds;                    // "1..2000"
  std::optional<std::uint64_t> replay;  // a seed
  bool trace = false;
  std::string keep;  // with replay: only these faults, "2,5" by their numbers; "none"
  std::optional<std::uint32_t> nodes;
  std::optional<double> minutes;
  std::string faults;  // "kill,pause"; "none"
  std::string json, report;
  unsigned threads = 0;  // 0: one per core
  // A load instead of faults.
  std::uint64_t items = 0, requests = 0;
  bool overload = false;
  std::string device = "A100-40G";  // a known one, or the file of a profile
  std::string shape = "qwen2-1.5b", link = "100gbps";
};

// Throw std::invalid_argument for options that make no sense; return the exit status.
int run_sim_swarm(const SimCommandOptions& options);
int run_sim_replay(const SimCommandOptions& options);
int run_sim_load(const SimCommandOptions& options);

sim::DrawLimits draw_limits(const SimCommandOptions& options);

}  // namespace troupe::deploy
