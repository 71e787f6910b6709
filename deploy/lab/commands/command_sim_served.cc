// `troupe-lab sim --model` and `--compare`: simulates a node or cluster as it would be served, and
// compares it with measured results.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/data/device_option.h"
#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/what_if/comparison.h"
#include "deploy/lab/what_if/deployment_input.h"
#include "deploy/lab/what_if/host_fit.h"
#include "deploy/reports/table.h"
#include "placement/cost/device_profiles.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

const SimCommandOptions not_given;

placement::DeviceProfile device_for(const SimCommandOptions& options) {
  return options.device == not_given.device ? placement::find_device("cpu") : device_of(options.device);
}
std::uint32_t cores_for(const SimCommandOptions& options) {
  return options.cores > 0 ? options.cores : usable_cores();
}

struct ServedOutcome {
  sim::DeploymentResult result;
  BenchRankRun run;
};

ServedOutcome simulate_served(const DeploymentInput& world, const std::string& policy) {
  ServedOutcome outcome;
  sim::DeploymentOptions options = deployment_options(world);
  Progress progress("simulated requests", options.total);
  options.progress = [&](double share) {
    progress.at(static_cast<std::uint64_t>(share * static_cast<double>(options.total)));
  };
  outcome.result = sim::run_deployment(options);
  outcome.run = as_bench_run(outcome.result, policy, world.device.host);
  return outcome;
}

std::string amount(const ComparedFigure& figure, double value) {
  if (figure.name == "tokens_total" || figure.name == "tokens_computed") return fixed(value, 0);
  return fixed(value, value < 10 ? 4 : 2);
}

void add_rows(Table& table, const std::string& policy, const std::vector<ComparedFigure>& figures) {
  for (const ComparedFigure& figure : figures)
    table.row({policy, figure.name, amount(figure, figure.measured), amount(figure, figure.predicted),
               (figure.error < 0 ? "" : "+") + fixed(100 * figure.error, 1) + " %"});
}

Table comparison_table() {
  constexpr auto right = Table::Align::right;
  return Table({{"policy"}, {"figure"}, {"measured", right}, {"simulated", right}, {"error", right}});
}

json to_json(const std::vector<ComparedFigure>& figures) {
  json all = json::object();
  for (const ComparedFigure& figure : figures)
    all[figure.name] = {{"measured", figure.measured},
                        {"simulated", figure.predicted},
                        {"error", std::isfinite(figure.error) ? json(figure.error) : json()}};
  return all;
}

// Prints broken promises. Returns true if there are none: a simulation with wrong answers predicts
// nothing.
bool print_violations(std::ostream& out, const sim::DeploymentResult& result) {
  for (const sim::Violation& violation : result.violations)
    out << "promise " << violation.promise << " is broken: " << violation.what << '\n';
  return result.violations.empty();
}

// Options override the settings recorded in the result.
BenchmarkRuns benchmark_of(const SimCommandOptions& options) {
  BenchmarkRuns benchmarks{read_bench_result(options.compare), {}};
  BenchResult& asked = benchmarks.result;
  ConfigOptions box = options.box;
  if (box.model.empty()) box.model = asked.model;
  box.settings.insert(box.settings.begin(), asked.settings.begin(), asked.settings.end());
  benchmarks.config = box.load();
  if (!options.data.empty()) asked.data = options.data;
  if (!options.trace.empty()) asked.trace = options.trace;
  if (options.requests > 0) asked.requests_max = options.requests;
  if (options.in_flight > 0) asked.in_flight = options.in_flight, asked.speed = 0;
  return benchmarks;
}

int run_comparison(const SimCommandOptions& options) {
  const ErrorBounds bounds = parse_bounds(options.bounds);
  const BenchmarkRuns benchmarks = benchmark_of(options);
  const placement::DeviceProfile device = device_for(options);
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  Table table = comparison_table();
  BenchResult simulated = benchmarks.result;
  simulated.runs.clear();
  json compared = json::array();
  std::vector<std::string> faults;
  bool sound = true;
  for (const BenchRankRun& measured : benchmarks.result.runs) {
    const ServedOutcome outcome =
        simulate_served(world_of(benchmarks, measured, device, cores_for(options)), measured.policy);
    sound = print_violations(people, outcome.result) && sound;
    const std::vector<ComparedFigure> figures = compare(measured, outcome.run);
    add_rows(table, measured.policy, figures);
    for (const std::string& fault : exceeded_bounds(figures, bounds))
      faults.push_back(measured.policy + ": " + fault);
    compared.push_back({{"policy", measured.policy}, {"figures", to_json(figures)}});
    simulated.runs.push_back(outcome.run);
  }
  table.print(people);
  for (const std::string& fault : faults) people << fault << '\n';
  json all = to_json(simulated);
  all.update({{"compared", compared}, {"commit", commit()}, {"device", device.name}});
  if (!options.json.empty()) write_output(options.json, all.dump(2) + "\n");
  return sound && faults.empty() ? 0 : 1;
}

DeploymentInput world_as_asked(const SimCommandOptions& options) {
  if (options.trace.empty())
    throw std::invalid_argument(
        "--model is given without --trace; expected a request trace to simulate "
        "(docs/reference/trace-format.md)");
  DeploymentInput world{.config = options.box.load(),
                        .data = options.data,
                        .trace = options.trace,
                        .requests_max = options.requests,
                        .speed = options.in_flight > 0 ? 0 : options.speed,
                        .in_flight = options.in_flight,
                        .nodes = options.nodes.value_or(1),
                        .routers = options.routers,
                        .device = device_for(options),
                        .cores = cores_for(options),
                        .link = placement::find_link(options.link),
                        .seed = options.seed};
  if (!options.memory.empty()) world.config.set("pool.memory", options.memory);
  if (!options.policy.empty()) world.config.set("router.policy", options.policy);
  return world;
}

void print_foreseen(std::ostream& out, const ServedOutcome& outcome) {
  constexpr auto right = Table::Align::right;
  const BenchRankRun& run = outcome.run;
  Table table({{"figure"}, {"simulated", right}});
  for (const ComparedFigure& figure : compare(run, run))
    table.row({figure.name, amount(figure, figure.predicted)});
  table.print(out);
  out << run.requests << " requests, " << run.errors << " without a reply, in " << fixed(run.seconds, 2)
      << " s; before them " << outcome.result.items_ahead << " item blocks in "
      << fixed(outcome.result.ahead_s, 1) << " s; CPU";
  for (const CpuShare& share : run.profile)
    if (share.seconds > 0) out << ", " << share.component << ' ' << fixed(share.seconds, 3) << " s";
  out << '\n';
}

}  // namespace

int run_sim_served(const SimCommandOptions& options) {
  if (!options.json.empty()) check_output(options.json);
  if (!options.compare.empty()) return run_comparison(options);
  if (!options.bounds.empty())
    throw std::invalid_argument(
        "--bound is given without --compare; expected a measured result to compare with");
  const DeploymentInput world = world_as_asked(options);
  const std::string policy = world.config.router.policy;
  const ServedOutcome outcome = simulate_served(world, policy);
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_foreseen(people, outcome);
  const bool sound = print_violations(people, outcome.result);
  BenchResult result{.model = options.box.model,
                     .data = options.data,
                     .trace = options.trace,
                     .settings = options.box.settings,
                     .requests_max = options.requests,
                     .in_flight = world.in_flight,
                     .speed = world.speed,
                     .pool_bytes = world.config.pool.memory,
                     .runs = {outcome.run}};
  json all = to_json(result);
  all.update({{"commit", commit()},
              {"device", world.device.name},
              {"plans_per_worker", outcome.result.plans_per_worker}});
  if (!options.json.empty()) write_output(options.json, all.dump(2) + "\n");
  return sound ? 0 : 1;
}

}  // namespace troupe::deploy
