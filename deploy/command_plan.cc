// `troupe plan`: which items should be on which nodes, what that buys, and why.
#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "deploy/commands.h"
#include "deploy/device_option.h"
#include "deploy/plan_file.h"
#include "deploy/plan_input.h"
#include "deploy/plan_placements.h"
#include "deploy/table.h"
#include "deploy/text_file.h"
#include "placement/device_profiles.h"
#include "placement/spread.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;
using placement::NodeNumber;

constexpr std::size_t drawn_accesses = 1'000'000;  // of each sample, where there are no histories
constexpr double user_tokens_default = 1'500;      // BAT Table 1: Industry

struct PlanOptions {
  std::string data, popularity, nodes = "4", placement = "all", json, move_from;
  std::optional<double> zipf, user_tokens;
  std::uint64_t items = 0, memory_bytes = 0;
  std::optional<std::uint32_t> item_tokens;
  std::uint32_t candidates = 100;
  double alpha = 0.1, held_out = 0.2;
  std::string device = "A100-40G", shape = "qwen2-1.5b", link = "100gbps";
};

// "4": nodes 1 to 4; "1,2,5": these.
std::vector<NodeNumber> parse_nodes(const std::string& text) {
  std::vector<NodeNumber> nodes;
  for (const std::string_view part : split(text, ',')) {
    NodeNumber number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number == 0)
      throw std::invalid_argument("--nodes is \"" + text.substr(0, 60) +
                                  "\"; expected a number of nodes, or their numbers with commas between");
    nodes.push_back(number);
  }
  if (nodes.size() == 1 && nodes.front() <= placement::nodes_max) {
    nodes.resize(nodes.front());
    std::iota(nodes.begin(), nodes.end(), 1);
  }
  return placement::checked_nodes(std::move(nodes));
}

struct Planning {
  PlanSetup setup;
  std::vector<std::string> ids;  // empty: generated
  std::string source;            // of the accesses
  std::optional<PlanWorkload> workload;
};

placement::Items make_items(const PlanOptions& options, const PlanCatalog& catalog, double token_bytes) {
  std::vector<std::uint32_t> bytes;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < catalog.ids.size(); ++i) {
    const double size = options.item_tokens.value_or(catalog.tokens[i]) * token_bytes;
    if (size > 4e9)
      throw std::invalid_argument("item " + catalog.ids[i].substr(0, 60) + " has over 4 GB; expected less");
    bytes.push_back(static_cast<std::uint32_t>(size));
    std::uint64_t key = 0xcbf29ce484222325;  // FNV-1a
    for (const unsigned char c : catalog.ids[i]) key = (key ^ c) * 0x100000001b3;
    keys.push_back(key);
  }
  return {std::move(bytes), std::move(keys)};
}

void plan_dataset(const PlanOptions& options, Planning& plan) {
  PlanCatalog catalog = read_plan_catalog(options.data);
  const PlanHistories histories = read_plan_histories(options.data, catalog, options.candidates);
  SplitRequests parts = split_requests(histories.requests, options.held_out);
  plan.setup.item_tokens = options.item_tokens ? *options.item_tokens : catalog.mean_tokens();
  if (histories.mean_events > 0 && !options.user_tokens)
    plan.setup.user_tokens = histories.mean_events * plan.setup.item_tokens;
  const std::size_t items = catalog.ids.size();
  std::optional<placement::AccessDistribution> accesses;
  if (options.zipf) {
    accesses = placement::AccessDistribution::zipf(items, *options.zipf);
    plan.source = "items in catalog order, Zipf " + fixed(*options.zipf, 2);
  } else if (!options.popularity.empty()) {
    accesses = placement::AccessDistribution::from_counts(read_popularity(options.popularity, catalog));
    plan.source = options.popularity;
  } else if (parts.plan.size() > 0) {
    accesses = placement::AccessDistribution::from_counts(count_uses(parts.plan, items));
    plan.source = std::to_string(parts.plan.size()) + " runs of histories, " +
                  std::to_string(histories.requests.size() - parts.plan.size()) + " held out";
  } else {
    throw std::invalid_argument(options.data + ": no histories to count; expected --popularity or --zipf");
  }
  plan.workload =
      PlanWorkload{make_items(options, catalog, plan.setup.shape.kv_token_bytes()), std::move(*accesses),
                   std::move(parts.plan), std::move(parts.predict), std::move(parts.simulate)};
  plan.ids = std::move(catalog.ids);
}

void plan_generated(const PlanOptions& options, Planning& plan) {
  if (options.items == 0 || !options.zipf)
    throw std::invalid_argument("plan needs a catalog; expected --data FOLDER, or --items N with --zipf S");
  plan.setup.item_tokens = options.item_tokens.value_or(10);
  const double bytes = plan.setup.item_tokens * plan.setup.shape.kv_token_bytes();
  plan.workload = PlanWorkload{placement::Items(options.items, static_cast<std::uint64_t>(bytes)),
                               placement::AccessDistribution::zipf(options.items, *options.zipf)};
  plan.source = "Zipf " + fixed(*options.zipf, 2);
}

Planning make_planning(const PlanOptions& options) {
  Planning plan;
  plan.setup = {.device = device_of(options.device),
                .shape = placement::find_shape(options.shape),
                .link = placement::find_link(options.link),
                .nodes = parse_nodes(options.nodes),
                .memory_bytes = options.memory_bytes,
                .candidates = options.candidates,
                .user_tokens = options.user_tokens.value_or(user_tokens_default),
                .alpha = options.alpha};
  options.data.empty() ? plan_generated(options, plan) : plan_dataset(options, plan);
  PlanWorkload& workload = *plan.workload;
  const std::size_t drawn = drawn_accesses / options.candidates + 1;
  if (workload.predict.size() == 0)
    workload.predict = draw_requests(workload.accesses, drawn, options.candidates, 1);
  if (workload.simulate.size() == 0)
    workload.simulate = draw_requests(workload.accesses, drawn, options.candidates, 2);
  return plan;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

std::string bytes_text(double bytes) {
  for (const auto& [unit, size] : {std::pair{" TB", 1e12}, {" GB", 1e9}, {" MB", 1e6}})
    if (bytes >= size) return fixed(bytes / size, 2) + unit;
  return fixed(bytes / 1e3, 1) + " kB";
}

void print_table(const std::vector<PlannedPlacement>& all) {
  constexpr auto right = Table::Align::right;
  Table table({{"placement"},
               {"everywhere", right},
               {"on one node", right},
               {"nowhere", right},
               {"fullest node", right},
               {"local", right},
               {"simulated", right},
               {"local, best node", right},
               {"simulated", right},
               {"pulled a request", right},
               {"link busy", right}});
  for (const PlannedPlacement& p : all)
    table.row({p.name, std::to_string(p.everywhere), std::to_string(p.sharded), std::to_string(p.nowhere),
               bytes_text(static_cast<double>(*std::ranges::max_element(p.node_bytes))),
               percent(p.expected.local), percent(p.simulated.any), percent(p.predicted.best),
               percent(p.simulated.best), bytes_text(p.pulled_bytes), percent(p.link_busy)});
  table.print(std::cout);
}

void print_plan(const PlanOptions& options, const Planning& plan, const std::vector<PlannedPlacement>& all) {
  const PlanSetup& s = plan.setup;
  std::cout << plan.workload->items.count() << " items, "
            << bytes_text(static_cast<double>(plan.workload->items.total_bytes())) << " (" << s.shape.name
            << ", " << fixed(s.item_tokens, 1) << " tokens each on average), accessed as in " << plan.source
            << "; " << s.nodes.size() << " nodes with " << bytes_text(static_cast<double>(s.memory_bytes))
            << " each for items.\n\n";
  print_table(all);
  std::cout
      << "\nlocal: share of item accesses whose item is on the node, if requests run on any node, or on "
         "the best one for\neach. link busy: with pulls, while a node computes without pause; "
      << percent(options.alpha) << " is the limit (--alpha).\n";
  for (const PlannedPlacement& p : all) std::cout << "\n" << p.name << ": " << p.why << "\n";
  const bool wants_metis = options.placement == "all" || options.placement == "metis";
  if (wants_metis && (all.empty() || all.back().name != "metis"))
    std::cout << "\nmetis: not planned; it takes histories (--data with sequences) to know which items are "
                 "asked for together.\n";
}

json figures(const PlannedPlacement& p) {
  return {{"items_everywhere", p.everywhere},
          {"items_on_one_node", p.sharded},
          {"items_nowhere", p.nowhere},
          {"node_bytes", p.node_bytes},
          {"expected_local", p.expected.local},
          {"expected_local_best_node", p.predicted.best},
          {"simulated_local", p.simulated.any},
          {"simulated_local_best_node", p.simulated.best},
          {"expected_nowhere", p.expected.nowhere},
          {"pulled_bytes_per_request", p.pulled_bytes},
          {"link_busy", p.link_busy},
          {"busiest_node_of_sharded", p.expected.busiest},
          {"busiest_best_node", p.simulated.busiest},
          {"why", p.why}};
}

json input_figures(const PlanSetup& s) {
  const placement::ReplicationInput input = replication_input(s);
  return {{"device", s.device.name},
          {"shape", s.shape.name},
          {"link", s.link.name},
          {"memory_bytes", s.memory_bytes},
          {"candidates", s.candidates},
          {"user_tokens", s.user_tokens},
          {"item_tokens", s.item_tokens},
          {"alpha", s.alpha},
          {"prefill_us", input.prefill_us},
          {"link_tokens_per_s", input.tokens_per_s},
          {"ratio_max", communication_ratio_max(input)}};
}

void print_moves(const std::string& name, const PlanMoves& moves, std::uint64_t items) {
  std::cout << "\n"
            << name << " against the earlier plan: " << moves.changed_items << " items change ("
            << percent(static_cast<double>(moves.changed_items) / static_cast<double>(items)) << " of "
            << items << "); nodes get " << moves.gains << " copies, "
            << bytes_text(static_cast<double>(moves.gained_bytes)) << ", " << moves.computed
            << " of them computed, and drop " << moves.losses << ".\n";
}

int run_plan(const PlanOptions& options) {
  check_output(options.json);
  const Planning plan = make_planning(options);
  std::vector<PlannedPlacement> all;
  for (const std::string& name : placement_names)
    if (options.placement == "all" || options.placement == name)
      if (auto planned = plan_placement(name, plan.setup, *plan.workload)) all.push_back(std::move(*planned));
  json result{{"input", input_figures(plan.setup)}, {"placements", json::array()}};
  if (options.json != "-") print_plan(options, plan, all);
  for (const PlannedPlacement& planned : all) {
    json one = options.json.empty() ? json() : placement_list(planned.placement, plan.ids);
    if (!options.move_from.empty()) {
      const PlanMoves moves = moves_from(read_placement(options.move_from, planned.name), planned.placement,
                                         plan.workload->items, plan.ids);
      if (options.json != "-") print_moves(planned.name, moves, plan.workload->items.count());
      if (!options.json.empty()) one["moves"] = moves_list(moves, plan.ids);
    }
    if (options.json.empty()) continue;
    one["name"] = planned.name;
    one.update(figures(planned));
    result["placements"].push_back(std::move(one));
  }
  if (!options.json.empty()) write_output(options.json, result.dump(1) + "\n");
  return 0;
}

void add_inputs(CLI::App& command, PlanOptions& options) {
  command.add_option("--data", options.data, "Folder with the catalog, and histories if there are any");
  command.add_option("--items", options.items, "Without --data: so many generated items")
      ->check(CLI::Range(1ULL, 4'000'000'000ULL));
  command.add_option("--popularity", options.popularity,
                     "File of item, tab, count; default: counted from the histories");
  command.add_option("--zipf", options.zipf, "The item of rank r is asked for in proportion to r^-S instead")
      ->check(CLI::Range(0.0, 10.0))
      ->excludes("--popularity");
  command.add_option("--held-out", options.held_out, "Share of the histories that only checks the plan")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command.add_option("--candidates", options.candidates, "Items of a request")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command
      .add_option("--user-tokens", options.user_tokens,
                  "Of a user on average; default: from the histories, or 1500")
      ->check(CLI::Range(1.0, 1e7));
  command.add_option("--item-tokens", options.item_tokens, "Of each item; default: the catalog's, or 10")
      ->check(CLI::Range(1, 100'000));
}

}  // namespace

void add_plan(CLI::App& app, Chosen& chosen) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Which items should be on which nodes, what that buys, and why: four placements side by side");
  add_inputs(*command, *options);
  command->add_option("--nodes", options->nodes, "How many, or their numbers: 1,2,5")->capture_default_str();
  command->add_option("--memory", options->memory_bytes, "Of each node, for items: 150GB, 64GiB")
      ->required()
      ->transform(CLI::AsSizeValue(true));
  command->add_option("--device", options->device, "A known device, or a profile that bench calibrate wrote")
      ->capture_default_str();
  command->add_option("--shape", options->shape, "Of the model")->capture_default_str();
  command->add_option("--link", options->link, "Between the nodes")->capture_default_str();
  command->add_option("--alpha", options->alpha, "Of a request's computing, the share that pulls may take")
      ->check(CLI::Range(1e-6, 100.0))
      ->capture_default_str();
  command->add_option("--placement", options->placement, "hrcs, replicate, hash, metis or all")
      ->check(CLI::IsMember({"hrcs", "replicate", "hash", "metis", "all"}))
      ->capture_default_str();
  command->add_option("--move-from", options->move_from,
                      "A plan that --json wrote: say also what changes against it");
  command->add_option("--json", options->json,
                      "Write the plan with the whole list to this file, or - for standard output");
  command->callback([options, &chosen] { chosen = [options] { return run_plan(*options); }; });
}

}  // namespace troupe::deploy
