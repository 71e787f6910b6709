// `troupe-lab sim --split`: a list of runs about the split of a pool, each on simulated nodes. The runs
// are independent; --threads of them run at the same time.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "deploy/data/split_policies.h"
#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_sim.h"
#include "deploy/lab/experiments/split_experiment.h"
#include "deploy/reports/table.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {
namespace {

using Json = nlohmann::json;
using Trained = std::map<std::string, placement::TrainedPolicies>;

struct SplitOutcome {
  sim::SplitRunResult result;
  std::string fault;  // error; "" if there is a result
};

Trained read_trained(const std::vector<SplitExperiment>& experiments) {
  Trained trained;
  for (const SplitExperiment& e : experiments)
    if (!e.trained.empty() && !trained.contains(e.trained))
      trained.emplace(e.trained, read_split_policies(e.trained));
  return trained;
}

// Reuses alpha* of a run with the same requests, if there is one.
SplitOutcome run_one(const SplitExperiment& experiment, const Trained& trained,
                     const SplitOutcome* searched) {
  SplitOutcome outcome;
  try {
    const auto at = trained.find(experiment.trained);
    sim::SplitRunOptions options = prepare(experiment, at == trained.end() ? nullptr : &at->second);
    if (!searched) return {sim::run_split(options), ""};
    options.oracle_draws = 0;
    for (const sim::SplitWindow& window : searched->result.windows) options.best.push_back(window.best);
    outcome.result = sim::run_split(options);
    outcome.result.best = searched->result.best;
    outcome.result.oracle_apart = searched->result.oracle_apart;
    outcome.result.static_p99_us = searched->result.static_p99_us;
    outcome.result.static_gap = searched->result.static_gap;
  } catch (const std::exception& error) {
    outcome.fault = error.what();
  }
  return outcome;
}

Json windows_of(const sim::SplitRunResult& r) {
  Json windows = Json::array();
  for (const sim::SplitWindow& w : r.windows)
    windows.push_back({{"hot_share", w.hot_share},
                       {"alpha", w.alpha},
                       {"best", w.best},
                       {"p99_ms", w.p99_us / 1e3},
                       {"kv_hits", w.kv_hits},
                       {"row_hits", w.row_hits},
                       {"requests", w.requests}});
  return windows;
}

Json json_of(const SplitExperiment& e, const SplitOutcome& o) {
  if (!o.fault.empty()) return {{"name", e.name}, {"fault", o.fault}};
  const sim::SplitRunResult& r = o.result;
  Json json{{"name", e.name},
            {"p99_ms", r.p99_us / 1e3},
            {"mean_ms", r.mean_us / 1e3},
            {"copied_ms", r.served.copy_us / 1e3},
            {"computed_ms", r.served.compute_us / 1e3},
            {"in_time", r.in_time},
            {"kv_hits", r.kv_hits},
            {"row_hits", r.row_hits},
            {"alpha", r.alpha},
            {"requests", r.requests}};
  if (e.oracle_draws > 0) {
    json.update({{"gap", r.gap}, {"oracle_apart", r.oracle_apart}, {"best", r.best}});
    for (std::size_t a = 0; a < sim::alphas; a += 10) {
      json["static_p99_ms"].push_back(r.static_p99_us[a] / 1e3);
      json["static_gap"].push_back(r.static_gap[a]);
    }
  }
  if (e.by_window) json["windows"] = windows_of(r);
  return json;
}

Table table_of(const std::vector<SplitExperiment>& experiments, const std::vector<SplitOutcome>& outcomes) {
  using enum Table::Align;
  Table table({{"experiment"},
               {"P99 ms", right},
               {"in time", right},
               {"KV hits", right},
               {"row hits", right},
               {"alpha", right},
               {"alpha*", right},
               {"gap", right}});
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    const sim::SplitRunResult& r = outcomes[i].result;
    const bool searched = experiments[i].oracle_draws > 0;
    table.row({experiments[i].name, fixed(r.p99_us / 1e3, 1), fixed(100 * r.in_time, 1) + " %",
               fixed(100 * r.kv_hits, 1) + " %", fixed(100 * r.row_hits, 1) + " %", fixed(r.alpha, 2),
               searched ? fixed(r.best, 2) : "", searched ? fixed(r.gap, 3) : ""});
  }
  return table;
}

// Key of everything that determines a run's requests; runs with equal keys have the same alpha*.
std::string requests_key(const SplitExperiment& e) {
  return Json{e.data,         e.regime,         e.layers,    e.nodes,        e.windows,        e.warm_up,
              e.oracle_draws, e.requests_per_s, e.hot_share, e.users_times,  e.tables_tb,      e.memory_gb,
              e.efficiency,   e.gather,         e.return_s,  e.return_sigma, e.visit_requests, e.row_skew,
              e.length,       e.tables,         e.seed}
      .dump();
}

void run_some(const std::vector<std::size_t>& chosen, unsigned threads,
              const std::function<void(std::size_t)>& run) {
  if (threads == 0) threads = usable_cores();
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < std::min<std::size_t>(threads, chosen.size()); ++t)
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < chosen.size(); i = next++) run(chosen[i]);
    });
}

std::vector<SplitOutcome> run_all(const std::vector<SplitExperiment>& experiments, unsigned threads) {
  const Trained trained = read_trained(experiments);
  std::vector<SplitOutcome> outcomes(experiments.size());
  std::map<std::string, std::size_t> searching;  // first experiment with these requests
  std::vector<std::size_t> first, others;
  for (std::size_t i = 0; i < experiments.size(); ++i)
    (experiments[i].oracle_draws == 0 || searching.try_emplace(requests_key(experiments[i]), i).second
         ? first
         : others)
        .push_back(i);
  run_some(first, threads, [&](std::size_t i) { outcomes[i] = run_one(experiments[i], trained, nullptr); });
  run_some(others, threads, [&](std::size_t i) {
    const SplitOutcome& searched = outcomes[searching.at(requests_key(experiments[i]))];
    outcomes[i] = searched.fault.empty() ? run_one(experiments[i], trained, &searched) : searched;
  });
  return outcomes;
}

}  // namespace

int run_sim_split(const SimCommandOptions& options) {
  if (!options.json.empty()) check_output(options.json);
  const std::vector<SplitExperiment> experiments = read_split_experiments(options.split);
  const std::vector<SplitOutcome> outcomes = run_all(experiments, options.threads);
  table_of(experiments, outcomes).print(options.json == "-" ? std::cerr : std::cout);
  Json results = Json::array();
  bool good = true;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    results.push_back(json_of(experiments[i], outcomes[i]));
    good = good && outcomes[i].fault.empty();
    if (!outcomes[i].fault.empty()) std::cerr << outcomes[i].fault << '\n';
  }
  if (!options.json.empty())
    write_output(options.json, Json{{"commit", commit()}, {"results", results}}.dump(1) + "\n");
  return good ? 0 : 1;
}

}  // namespace troupe::deploy
