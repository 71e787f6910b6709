// `troupe-lab plan --serve`: finds how many nodes of which type serve a request trace within a latency
// bound, and which type is cheapest.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/data/version.h"
#include "deploy/lab/commands/command_plan_serve.h"
#include "deploy/lab/what_if/deployment_trial.h"
#include "deploy/reports/table.h"
#include "placement/cost/device_profiles.h"
#include "runtime/profiling/process_limits.h"

namespace troupe::deploy {

namespace {

std::string milliseconds(double ms) { return ms < 1e9 ? fixed(ms, 0) : "none answered"; }

void print_capacities(std::ostream& out, const std::vector<Capacity>& all) {
  constexpr auto right = Table::Align::right;
  Table table({{"node"},
               {"price", right},
               {"nodes", right},
               {"together", right},
               {"P50 ms", right},
               {"P99 ms", right},
               {"lost", right},
               {"tokens reused", right},
               {"tried"}});
  for (const Capacity& one : all) {
    std::string tried;
    for (const CapacityTrial& trial : one.trials)
      tried += (tried.empty() ? "" : ", ") + std::to_string(trial.nodes) + ": " + milliseconds(trial.p99_ms);
    const CapacityTrial& shown = one.least ? *one.least : one.trials.back();
    table.row({one.type.device, fixed(one.type.price, 2),
               one.least ? std::to_string(shown.nodes) : "too slow", one.least ? fixed(one.price(), 2) : "",
               milliseconds(shown.p50_ms), milliseconds(shown.p99_ms), percent(shown.lost),
               percent(shown.token_hit_rate), tried});
  }
  table.print(out);
}

nlohmann::json trial_json(const CapacityTrial& t) {
  return {{"nodes", t.nodes},
          {"p50_ms", t.p50_ms},
          {"p99_ms", t.p99_ms},
          {"lost", t.lost},
          {"token_hit_rate", t.token_hit_rate},
          {"requests_per_s", t.requests_per_s}};
}

nlohmann::json capacities_json(const ServedTrace& trace, const CapacityTarget& target,
                               const std::vector<Capacity>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const Capacity& one : all) {
    nlohmann::json trials = nlohmann::json::array();
    for (const CapacityTrial& trial : one.trials) trials.push_back(trial_json(trial));
    nlohmann::json entry{{"node", one.type.device}, {"price", one.type.price}, {"trials", trials}};
    if (one.least) entry["least"] = trial_json(*one.least), entry["price_together"] = one.price();
    list.push_back(std::move(entry));
  }
  nlohmann::json result{{"commit", commit()},
                        {"requests", trace.requests()},
                        {"seconds", trace.seconds()},
                        {"p99_ms", target.p99_ms},
                        {"lost_most", target.lost_most},
                        {"nodes_max", target.nodes_max},
                        {"types", list}};
  if (const Capacity* best = cheapest(all)) result["cheapest"] = best->type.device;
  return result;
}

bool is_served(const PlanServeOptions& options) {
  return !options.box.model.empty() || !options.box.config_file.empty();
}

DeploymentInput world_of(const PlanServeOptions& options) {
  DeploymentInput world{.config = options.box.load(),
                        .data = options.data,
                        .trace = options.serve.trace,
                        .requests_max = options.serve.requests,
                        .speed = options.serve.speed,
                        .cores = options.cores > 0 ? options.cores : usable_cores(),
                        .link = placement::find_link(options.serve.link),
                        .seed = options.serve.seed};
  world.config.set("pool.memory", std::to_string(options.serve.memory_bytes));
  return world;
}

TryNodes trial_for(const ServedTrace& trace, const PlanServeOptions& options) {
  if (!is_served(options))
    return [&](const NodeType& type, std::uint32_t nodes) {
      return try_serving(trace, options.serve, type, nodes);
    };
  return [world = world_of(options)](const NodeType& type, std::uint32_t nodes) {
    return try_deployment(world, type, nodes);
  };
}

// Explains why no cluster meets the target.
std::string impossible(const ServedTrace& trace, const PlanServeOptions& options,
                       const std::vector<Capacity>& all) {
  std::string text = "no cluster of up to " + std::to_string(options.target.nodes_max) +
                     " nodes answers 99 % of this trace in " + fixed(options.target.p99_ms, 0) + " ms";
  for (const Capacity& one : all)
    text += "\n  " + one.type.device + ": " + milliseconds(one.trials.back().p99_ms) + " ms with " +
            std::to_string(one.trials.back().nodes) + " nodes, " + percent(one.trials.back().lost) + " lost" +
            (is_served(options) ? ""
                                : "; a mean request alone, with nothing cached: " +
                                      fixed(alone_ms(trace, options.serve, one.type), 0) + " ms");
  return text + "\nexpected a longer --p99, a larger --nodes-max, faster nodes, or a smaller model";
}

}  // namespace

int run_plan_serve(const PlanServeOptions& options) {
  if (options.nodes.empty())
    throw std::invalid_argument("--serve has no --node; expected at least one, such as --node A100-40G=3.2");
  if (!options.json.empty()) check_output(options.json);
  std::vector<NodeType> types;
  for (const std::string& text : options.nodes) types.push_back(parse_node_type(text));
  const ServedTrace trace(options.serve);
  std::vector<Capacity> all;
  Progress progress("types of nodes", types.size());
  const TryNodes try_nodes = trial_for(trace, options);
  for (const NodeType& type : types) {
    all.push_back(find_capacity(type, options.target, try_nodes));
    progress.at(all.size());
  }
  std::ostream& out = options.json == "-" ? std::cerr : std::cout;
  out << trace.requests() << " requests of " << trace.users() << " users in " << fixed(trace.seconds(), 0)
      << " s, " << fixed(trace.candidates_mean(), 0) << " candidates and " << fixed(trace.events_mean(), 0)
      << " events each; P99 at most " << fixed(options.target.p99_ms, 0) << " ms"
      << (is_served(options) ? " after the item blocks were precomputed" : " in the second half") << "\n\n";
  print_capacities(out, all);
  if (!options.json.empty())
    write_output(options.json, capacities_json(trace, options.target, all).dump(1) + "\n");
  const Capacity* best = cheapest(all);
  if (!best) {
    std::cerr << impossible(trace, options, all) << '\n';
    return 1;
  }
  out << "\ncheapest: " << best->least->nodes << " × " << best->type.device << ", " << fixed(best->price(), 2)
      << " together\n";
  return 0;
}

}  // namespace troupe::deploy
