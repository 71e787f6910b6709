// `troupe-lab sim --experiments`: a list of throughput figures of a paper, each measured on a saturated
// simulated cluster. The runs are independent; --threads of them run at the same time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/experiments/experiment.h"
#include "deploy/reports/table.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {

namespace {

struct ExperimentOutcome {
  PreparedExperiment prepared;
  sim::SaturationResult result;
  double wall_s = 0;
  std::string fault;  // error; "" if there is a result
};

ExperimentOutcome run(const Experiment& experiment) {
  ExperimentOutcome outcome;
  const auto start = std::chrono::steady_clock::now();
  try {
    outcome.prepared = prepare(experiment);
    outcome.result = sim::run_saturated(outcome.prepared.options);
  } catch (const std::exception& error) {
    outcome.fault = error.what();
  }
  outcome.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

nlohmann::json to_json(const Experiment& e, const ExperimentOutcome& o) {
  if (!o.fault.empty()) return {{"name", e.name}, {"fault", o.fault}};
  const sim::SaturationResult& r = o.result;
  nlohmann::json violations = nlohmann::json::array();
  for (const sim::Violation& v : r.violations) violations.push_back(v.what);
  return {{"name", e.name},
          {"requests_per_s", r.requests_per_s},
          {"token_hit_rate", r.token_hit_rate},
          {"user_plans", r.user_plans},
          {"user_hit_rate", r.user_hit_rate},
          {"item_hit_rate", r.item_hit_rate},
          {"device_busy", r.device_busy},
          {"pulled_mb", r.pulled_mb},
          {"begun_early", r.begun_early},
          {"spared_ms", r.spared_ms},
          {"mean_ms", r.mean_ms},
          {"p50_ms", r.p50_ms},
          {"p90_ms", r.p90_ms},
          {"p99_ms", r.p99_ms},
          {"answered", r.answered},
          {"refused", r.refused},
          {"expired", r.expired},
          {"replicated_items", o.prepared.replicated},
          {"placed_items", o.prepared.placed},
          {"item_gb", o.prepared.item_gb},
          {"user_gb", o.prepared.user_gb},
          {"node_tokens", o.prepared.node_tokens},
          {"best_mean", o.prepared.best_mean},
          {"best_median", o.prepared.best_median},
          {"items_ahead", r.items_ahead},
          {"offline_s", r.offline_s},
          {"measured_s", r.measured_s},
          {"events", r.events},
          {"wall_s", o.wall_s},
          {"violations", violations}};
}

Table table_of(const std::vector<Experiment>& experiments, const std::vector<ExperimentOutcome>& outcomes) {
  using enum Table::Align;
  Table table({{"experiment"},
               {"requests/s", right},
               {"tokens reused", right},
               {"user plans", right},
               {"user hits", right},
               {"item hits", right},
               {"busy", right},
               {"pulled MB", right},
               {"item GB", right},
               {"user GB", right},
               {"refused", right},
               {"wall s", right}});
  const auto percent = [](double share) { return fixed(100 * share, 1) + " %"; };
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    const sim::SaturationResult& r = outcomes[i].result;
    table.row({experiments[i].name, fixed(r.requests_per_s, 1), percent(r.token_hit_rate),
               percent(r.user_plans), percent(r.user_hit_rate), percent(r.item_hit_rate),
               percent(r.device_busy), fixed(r.pulled_mb, 1), fixed(outcomes[i].prepared.item_gb, 0),
               fixed(outcomes[i].prepared.user_gb, 0), std::to_string(r.refused + r.expired),
               fixed(outcomes[i].wall_s, 1)});
  }
  return table;
}

}  // namespace

int run_sim_experiments(const SimCommandOptions& options) {
  if (!options.json.empty()) check_output(options.json);
  const std::vector<Experiment> experiments = read_experiments(options.experiments);
  std::vector<ExperimentOutcome> outcomes(experiments.size());
  const unsigned threads = options.threads > 0 ? options.threads : usable_cores();
  std::atomic<std::size_t> next{0}, done{0};
  {
    Progress progress("experiments", experiments.size());
    std::mutex telling;
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < std::min<std::size_t>(std::max(threads, 1U), experiments.size()); ++t)
      workers.emplace_back([&] {
        for (std::size_t i = next++; i < experiments.size(); i = next++) {
          outcomes[i] = run(experiments[i]);
          const std::lock_guard lock(telling);
          progress.at(++done);
        }
      });
  }
  table_of(experiments, outcomes).print(options.json == "-" ? std::cerr : std::cout);
  nlohmann::json results = nlohmann::json::array();
  bool good = true;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    results.push_back(to_json(experiments[i], outcomes[i]));
    good = good && outcomes[i].fault.empty() && outcomes[i].result.violations.empty();
    if (!outcomes[i].fault.empty()) std::cerr << experiments[i].name << ": " << outcomes[i].fault << '\n';
    for (const sim::Violation& v : outcomes[i].result.violations)
      std::cerr << experiments[i].name << ": promise " << v.promise << " is broken: " << v.what << '\n';
  }
  if (!options.json.empty())
    write_output(options.json, nlohmann::json{{"commit", commit()}, {"results", results}}.dump(2) + "\n");
  return good ? 0 : 1;
}

}  // namespace troupe::deploy
