// `troupe sim`: the options, and which part they ask for.
#include "deploy/commands/command_sim.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace troupe::deploy {

namespace {

// --trace once had the meaning of --messages.
void check_together(const SimCommandOptions& options) {
  if (options.trace.empty()) return;
  if (options.replay)
    throw std::invalid_argument(
        "--replay runs a seed and --trace a request trace; expected one of them (--replay SEED --messages "
        "prints "
        "every message)");
  if (!options.seeds.empty() || options.overload || options.items > 0)
    throw std::invalid_argument(
        "--trace has its own requests, users and items; expected it without --seeds, --overload and --items");
}

bool is_served(const SimCommandOptions& options) {
  return !options.compare.empty() || !options.box.model.empty() || !options.box.config_file.empty();
}

int run_sim(const SimCommandOptions& options) {
  check_together(options);
  if (is_served(options)) return run_sim_served(options);
  if (options.replay) return run_sim_replay(options);
  if (!options.experiments.empty()) return run_sim_experiments(options);
  if (!options.split.empty()) return run_sim_split(options);
  if (!options.trace.empty()) return run_sim_trace(options);
  if (options.refresh) return run_sim_refresh(options);
  if (options.requests > 0 || options.overload) return run_sim_load(options);
  if (options.seeds.empty())
    throw std::invalid_argument(
        "sim has nothing to do; expected --seeds A..B, --replay SEED, --requests N, --overload, --refresh "
        "or --trace FILE");
  return run_sim_swarm(options);
}

sim::FaultKind find_fault_kind(const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < sim::fault_kinds; ++i) {
    const auto kind = static_cast<sim::FaultKind>(i);
    if (sim::name_of(kind) == name) return kind;
    known += (i > 0 ? ", " : "") + std::string(sim::name_of(kind));
  }
  throw std::invalid_argument("--faults: \"" + name + "\" is no fault; expected some of " + known);
}

}  // namespace

sim::DrawLimits draw_limits(const SimCommandOptions& options) {
  sim::DrawLimits limits;
  limits.nodes = options.nodes;
  limits.minutes = options.minutes;
  limits.no_faults = options.faults == "none";
  limits.members = options.members;
  if (options.faults.empty() || limits.no_faults) return limits;
  std::istringstream names(options.faults);
  for (std::string name; std::getline(names, name, ',');) limits.kinds.push_back(find_fault_kind(name));
  return limits;
}

void add_sim(Command app) {
  auto options = std::make_shared<SimCommandOptions>();
  Command command = app.add_command(
      "sim", "The production actors on a simulated cluster under virtual time, with faults or under load");
  command.add_option("--seeds", options->seeds,
                     "Seeds to run, A..B: each draws a cluster, a load and its faults");
  command.add_option("--replay", options->replay, "Run this one seed and say how it went");
  command.add_flag("--messages", options->messages, "With --replay: print every message");
  command.add_flag("--figures", options->figures,
                   "With --replay: print what metrics and logs of all nodes came to");
  command.add_option("--keep", options->keep,
                     "With --replay: only the faults with these numbers (2,5), or none");
  command.add_option("--nodes", options->nodes, "Size of the cluster; drawn if it is not given")
      .between(1U, 100'000U);
  command.add_option("--minutes", options->minutes, "Virtual minutes of the phase with faults")
      .between(0.01, 10'000.0);
  command.add_option("--faults", options->faults, "Kinds of faults to draw from (kill,pause,…), or none");
  command.add_flag("--members", options->members,
                   "With --seeds or --replay: a worker joins each cluster, and another leaves it");
  command.add_option("--items", options->items, "With --requests or --refresh: items of the catalog")
      .between(1ULL, 4'000'000'000ULL);
  command.add_option("--requests", options->requests,
                     "No faults: so many requests, and what the cluster makes of them");
  command.add_option(
      "--trace", options->trace,
      "No faults: the requests of this trace at their times (deploy/TRACES.md), the first --requests");
  command.add_option("--speed", options->speed, "With --trace: times so much shorter")
      .between(1e-6, 1e6)
      .default_shown();
  command.add_option("--experiments", options->experiments,
                     "No faults: the throughput of each cluster of this JSON list (tests/papers/bat)");
  command.add_option(
      "--split", options->split,
      "How a pool is split between rows and keys and values: each run of this JSON list (tests/papers/hlem)");
  options->box.add_to(command);
  command.add_option("--data", options->data,
                     "With --model: catalog folder, as for import; default: the catalog in --data-dir");
  command.add_option("--memory", options->memory,
                     "With --model: key-value memory of each node (pool.memory)");
  command
      .add_option(
          "--in-flight", options->in_flight,
          "With --model: requests under way at a time, in a closed loop; default: at the trace's times")
      .between(1, 100'000);
  command
      .add_option("--cores", options->cores,
                  "With --model: of each node; default: as many as this machine has")
      .between(1, 1'024);
  command.add_option("--compare", options->compare,
                     "A result of bench rank --trace --json: simulate its runs, and print each figure beside "
                     "the measured one");
  command.add_option(
      "--bound", options->bounds,
      "With --compare: FIGURE=SHARE, the largest error; exit 1 where one is missed; may be repeated");
  command
      .add_option("--policy", options->policy,
                  "With --requests, --overload and --trace: " + router::policy_names())
      .default_shown();
  command
      .add_option("--seed", options->seed, "With --requests, --overload and --trace: of the simulated world")
      .default_shown();
  command.add_flag("--overload", options->overload,
                   "No faults: ten times the capacity for --minutes, then 0.8 times");
  command.add_flag(
      "--refresh", options->refresh,
      "No faults: a hot item, a new one, a worker that leaves and returns, and what requests feel");
  command.add_option("--device", options->device,
                     "Of the workers under load: a known one, or a profile that bench calibrate wrote");
  command.add_option("--shape", options->shape, "Of the model under load");
  command.add_option("--link", options->link, "Between the nodes under load");
  command.add_option("--threads", options->threads, "Seeds that run at a time; 0: one per core");
  command.add_option("--json", options->json, "Write the result to this file, or - for standard output");
  command.add_option("--report", options->report, "Write an HTML report with plots to this file");
  command.runs([options] { return run_sim(*options); });
}

}  // namespace troupe::deploy
