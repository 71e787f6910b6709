// Reads experiments about the split of a pool between embedding rows and keys and values (HLEM)
// from JSON. Turns each into options of the simulation.
#include "deploy/lab/experiments/split_experiment.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "placement/baselines/experiment_split.h"
#include "runtime/config/whole_file.h"
#include "runtime/wire/json_bounds.h"
#include "sim/split/split_settings.h"

namespace troupe::deploy {
namespace {

using Json = nlohmann::json;
using E = SplitExperiment;

constexpr std::size_t split_bytes_max = 1 << 20;
constexpr JsonBounds split_bounds{.values_max = 100'000, .depth_max = 8};

struct SplitMemberRule {
  std::function<bool(E&, const Json&)> set;
  std::string expected;
};

template <class T>
SplitMemberRule range(T E::*member, double least, double most) {
  return {[=](E& e, const Json& value) {
            if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
              return false;
            e.*member = static_cast<T>(value.get<double>());
            return true;
          },
          Json(least).dump() + " to " + Json(most).dump()};
}

SplitMemberRule text(std::string E::*member) {
  return {[=](E& e, const Json& value) {
            if (value.is_string()) e.*member = value.get<std::string>();
            return value.is_string();
          },
          "a text"};
}

SplitMemberRule flag(bool E::*member) {
  return {[=](E& e, const Json& value) {
            if (value.is_boolean()) e.*member = value.get<bool>();
            return value.is_boolean();
          },
          "true or false"};
}

const std::map<std::string, SplitMemberRule>& split_members() {
  static const std::map<std::string, SplitMemberRule> all{
      {"name", text(&E::name)},
      {"data", text(&E::data)},
      {"regime", text(&E::regime)},
      {"policy", text(&E::policy)},
      {"routing", text(&E::routing)},
      {"trained", text(&E::trained)},
      {"layers", range(&E::layers, 1, 64)},
      {"nodes", range(&E::nodes, 1, 256)},
      {"windows", range(&E::windows, 1, 10'000)},
      {"warm_up", range(&E::warm_up, 0, 9'999)},
      {"oracle_draws", range(&E::oracle_draws, 0, 256)},
      {"alpha", range(&E::alpha, 0, 1)},
      {"requests_per_s", range(&E::requests_per_s, 0, 10'000)},
      {"hot_share", range(&E::hot_share, -1, 0.95)},
      {"users_times", range(&E::users_times, 0.01, 100)},
      {"tables_tb", range(&E::tables_tb, 0.05, 20)},
      {"memory_gb", range(&E::memory_gb, 1, 1'000)},
      {"length", range(&E::length, 0, 100'000)},
      {"tables", range(&E::tables, 0, 1'000)},
      {"efficiency", range(&E::efficiency, 0.01, 1)},
      {"gather", range(&E::gather, 0.01, 1)},
      {"return_s", range(&E::return_s, 0.1, 1'000)},
      {"return_sigma", range(&E::return_sigma, 0, 3)},
      {"visit_requests", range(&E::visit_requests, 1, 1'000)},
      {"row_skew", range(&E::row_skew, 0, 3)},
      {"refill_gb_per_s", range(&E::refill_gb_per_s, 0, 1'000)},
      {"kept", range(&E::kept, 0, 0.999)},
      {"better", range(&E::better, 0, 1)},
      {"pid_row_cost", range(&E::pid_row_cost, 0, 1'000)},
      {"seed", range(&E::seed, 0, 1e15)},
      {"pooled", flag(&E::pooled)},
      {"by_window", flag(&E::by_window)}};
  return all;
}

SplitExperiment read_split_experiment(const Json& json, const std::string& where) {
  if (!json.is_object()) throw ImportError(where + ": expected an object");
  SplitExperiment experiment;
  for (const auto& [name, value] : json.items()) {
    const auto at = split_members().find(name);
    if (at == split_members().end()) {
      std::string names;
      for (const auto& [known, member] : split_members()) names += (names.empty() ? "" : ", ") + known;
      throw ImportError(where + ": \"" + name.substr(0, 60) + "\" is not a member; expected some of " +
                        names);
    }
    if (!at->second.set(experiment, value))
      throw ImportError(where + ": " + name + " is " + value.dump().substr(0, 60) + "; expected " +
                        at->second.expected);
  }
  return experiment;
}

// Returns the index of a name in a list of names. `where` begins the error text.
std::size_t index_of(const std::string& name, std::span<const std::string_view> names,
                     const std::string& where) {
  const auto at = std::ranges::find(names, name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  std::string expected;
  for (const std::string_view one : names) expected += (expected.empty() ? "" : ", ") + std::string(one);
  throw std::invalid_argument(where + " is \"" + name + "\"; expected one of " + expected);
}

const sim::SplitData& data_of(const SplitExperiment& e) {
  std::vector<std::string_view> names;
  for (const sim::SplitData& data : sim::split_data()) names.push_back(data.name);
  return sim::split_data()[index_of(e.data, names, e.name + ": data")];
}

void set_policy(const SplitExperiment& e, const placement::TrainedPolicies* trained,
                sim::SplitRunOptions& options) {
  if (!placement::knows_experiment_split(e.policy))
    throw std::invalid_argument(e.name + ": policy is \"" + e.policy + "\"; expected one of " +
                                placement::experiment_split_names());
  if (placement::trained_experiment_split(e.policy) && !trained)
    throw std::invalid_argument(
        e.name + ": " + e.policy +
        " needs a trained model; expected the file that `troupe-lab train` wrote as \"trained\"");
  const sim::SplitTimes times(options.sizes);
  const sim::SplitWorkloadOptions& w = options.workload;
  const sim::RoutingCosts costs = sim::routing_costs(times, (w.length_min + w.length_max) / 2);
  const placement::ExperimentSplit choice{.trained = trained,
                                          .kv_us = costs.kv_us,
                                          .row_us = costs.rows_us * e.pid_row_cost,
                                          .better = e.better >= 0 ? e.better : placement::split_gain_min};
  if (e.policy.starts_with("static:"))
    options.alpha = placement::make_experiment_split(e.policy, choice) ? std::stod(e.policy.substr(7)) : 0.5;
  options.shadows = e.policy == "marginal";
  options.pooled = e.pooled;
  if (e.kept >= 0) options.shadow_kept = e.kept;
  options.policy = [policy = e.policy, choice](std::uint32_t) {
    return placement::make_experiment_split(policy, choice);
  };
}

// Replaces constants of the world where the experiment has others.
void set_world(const SplitExperiment& e, sim::SplitRunOptions& options) {
  const auto set = [](double value, double& constant) {
    if (value >= 0) constant = value;
  };
  if (e.length > 0) options.workload.length_min = options.workload.length_max = e.length;
  if (e.tables > 0) options.sizes.tables = e.tables;
  set(e.efficiency, options.sizes.efficiency);
  set(e.gather, options.sizes.gather);
  set(e.return_s, options.workload.return_s);
  set(e.return_sigma, options.workload.return_sigma);
  set(e.visit_requests, options.workload.visit_requests);
  set(e.row_skew, options.workload.row_skew);
  set(e.refill_gb_per_s * 1e9, options.refill_per_s);
}

}  // namespace

std::vector<SplitExperiment> read_split_experiments(const std::string& path) {
  std::string text;
  try {
    text = read_whole_file(path, split_bytes_max, "a file with a JSON list of experiments");
  } catch (const FileError& error) {
    throw ImportError(error.what());
  }
  if (const std::string excess = exceeded_bound(text, split_bounds); !excess.empty())
    throw ImportError(path + ": has " + excess + "; expected fewer experiments");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) throw ImportError(path + ": expected a JSON list of experiments");
  std::vector<SplitExperiment> experiments;
  for (std::size_t i = 0; i < json.size(); ++i)
    experiments.push_back(read_split_experiment(json[i], path + ": experiment " + std::to_string(i)));
  return experiments;
}

sim::SplitRunOptions prepare(const SplitExperiment& e, const placement::TrainedPolicies* trained) {
  const auto regime = static_cast<sim::Regime>(index_of(e.regime, sim::regime_names, e.name + ": regime"));
  sim::SplitRunOptions options = sim::split_setting(data_of(e), e.layers, regime);
  options.routing =
      static_cast<sim::SplitRouting>(index_of(e.routing, sim::routing_names, e.name + ": routing"));
  if (e.oracle_draws > 0 && options.routing != sim::SplitRouting::home)
    throw std::invalid_argument(
        e.name + ": oracle_draws is " + std::to_string(e.oracle_draws) +
        "; expected 0 unless routing is home, whose requests are the same for every alpha");
  if (e.warm_up >= e.windows)
    throw std::invalid_argument(e.name + ": warm_up is " + std::to_string(e.warm_up) +
                                "; expected fewer than windows");
  options.nodes = e.nodes;
  options.alpha = e.alpha;
  options.warm_up = e.warm_up;
  options.oracle_draws = e.oracle_draws;
  options.table_tb = e.tables_tb;
  options.sizes.memory_gb = e.memory_gb;
  set_world(e, options);
  sim::SplitWorkloadOptions& w = options.workload;
  w.windows = e.windows;
  w.seed = w.schedule = e.seed;
  w.users = std::max(100U, static_cast<std::uint32_t>(w.users * e.users_times));
  if (e.requests_per_s > 0) w.per_second = e.requests_per_s;
  if (e.hot_share >= 0) w.hot_share = e.hot_share;
  set_policy(e, trained, options);
  return options;
}

}  // namespace troupe::deploy
