// `troupe-lab sim`: declares the options and selects the part that they ask for.
#include "deploy/lab/commands/command_sim.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "deploy/lab/commands/lab_commands.h"

namespace troupe::deploy {

namespace {

// In earlier versions, --trace had the meaning of --messages.
void check_together(const SimCommandOptions& options) {
  if (options.trace.empty()) return;
  if (options.replay)
    throw std::invalid_argument(
        "--replay runs a seed and --trace a request trace; expected one of them (--replay SEED --messages "
        "prints every message)");
  if (!options.seeds.empty() || options.overload || options.items > 0)
    throw std::invalid_argument(
        "--trace has its own requests, users and items; expected no --seeds, --overload or --items");
}

bool is_served(const SimCommandOptions& options) {
  return !options.compare.empty() || !options.box.model.empty() || !options.box.config_file.empty();
}

void check_routers(const SimCommandOptions& options) {
  if (options.routers == 0) return;
  if (!options.compare.empty())
    throw std::invalid_argument(
        "--routers is given with --compare; expected none, because bench rank measures a single node");
  if (!is_served(options))
    throw std::invalid_argument(
        "--routers is given without --model; expected a model whose cluster is simulated");
}

int run_sim(const SimCommandOptions& options) {
  check_together(options);
  check_routers(options);
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
  throw std::invalid_argument("--faults: \"" + name + "\" is an unknown fault; expected some of " + known);
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
      "sim",
      "Run the production actors on a simulated cluster under virtual time, with faults or under load");
  command.add_option("--seeds", options->seeds,
                     "Run these seeds, A..B; each draws a cluster, a load and its faults");
  command.add_option("--replay", options->replay, "Run this one seed and print its history");
  command.add_flag("--messages", options->messages, "With --replay: print every message");
  command.add_flag("--figures", options->figures,
                   "With --replay: print the totals of all nodes' metrics and logs");
  command.add_option("--keep", options->keep,
                     "With --replay: inject only the faults with these numbers, such as 2,5; or none");
  command.add_option("--nodes", options->nodes, "Number of nodes; default: drawn").between(1U, 100'000U);
  command.add_option("--minutes", options->minutes, "Virtual minutes of the phase with faults or overload")
      .between(0.01, 10'000.0);
  command.add_option("--faults", options->faults,
                     "Kinds of faults to draw from, such as kill,pause; or none");
  command.add_flag("--members", options->members,
                   "With --seeds or --replay: one worker joins each cluster, and another leaves it");
  command
      .add_option("--items", options->items, "With --requests or --refresh: number of items in the catalog")
      .between(1ULL, 4'000'000'000ULL);
  command.add_option("--requests", options->requests,
                     "Without faults: run this many requests and report latencies and hit rates");
  command.add_option(
      "--trace", options->trace,
      "Without faults: replay this trace (docs/reference/trace-format.md), at most --requests requests");
  command.add_option("--speed", options->speed, "With --trace: replay speed-up factor; 2: twice as fast")
      .between(1e-6, 1e6)
      .default_shown();
  command.add_option(
      "--experiments", options->experiments,
      "Without faults: measure the throughput of each cluster of this JSON list (tests/papers/bat)");
  command.add_option("--split", options->split,
                     "Simulate splits of a pool between embedding rows and keys and values: each run of this "
                     "JSON list (tests/papers/hlem)");
  options->box.add_to(command);
  command.add_option("--data", options->data,
                     "With --model: catalog folder, as for import; default: the catalog in --data-dir");
  command.add_option("--memory", options->memory,
                     "With --model: memory of each node for keys and values (pool.memory)");
  command
      .add_option(
          "--in-flight", options->in_flight,
          "With --model: number of requests in flight, in a closed loop; default: follow the trace's times")
      .between(1, 100'000);
  command
      .add_option("--routers", options->routers,
                  "With --model: number of nodes that have a router; default: all of --nodes")
      .between(1, 100'000);
  command
      .add_option("--cores", options->cores,
                  "With --model: cores per node; default: as many as this machine has")
      .between(1, 1'024);
  command.add_option("--compare", options->compare,
                     "Result file of bench rank --trace --json: simulate its runs and print each figure "
                     "beside the measured one");
  command.add_option("--bound", options->bounds,
                     "With --compare: maximum error of a figure, FIGURE=FRACTION; exits with 1 if it is "
                     "exceeded; may be repeated");
  command.add_option("--policy", options->policy,
                     "With --requests, --overload and --trace: policy, one of " + router::policy_names() +
                         "; default: planner, or with --model that of its configuration");
  command
      .add_option("--seed", options->seed,
                  "With --requests, --overload and --trace: seed of the simulated world")
      .default_shown();
  command.add_flag("--overload", options->overload,
                   "Without faults: offer ten times the capacity for --minutes, then 0.8 times");
  command.add_flag("--refresh", options->refresh,
                   "Without faults: change the placement (a hot item, a new item, a worker that leaves and "
                   "returns) and report the effect on requests");
  command.add_option("--device", options->device,
                     "Device of the workers under load: name of a known one, or file of a profile that bench "
                     "calibrate wrote");
  command.add_option("--shape", options->shape, "Model shape under load");
  command.add_option("--link", options->link, "Network between the nodes under load");
  command.add_option("--threads", options->threads,
                     "Seeds or experiments to run at the same time; 0: one per core");
  command.add_option("--json", options->json, "Write the result to this file, or - for standard output");
  command.add_option("--report", options->report, "Write an HTML report with plots to this file");
  command.runs([options] { return run_sim(*options); });
}

}  // namespace troupe::deploy
