// `troupe-lab plan`: assigns items to nodes, and reports the gain and the reason.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "deploy/data/text_file.h"
#include "deploy/lab/commands/command_plan_serve.h"
#include "deploy/lab/commands/lab_commands.h"
#include "deploy/lab/planning/command_plan.h"
#include "deploy/lab/planning/plan_file.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

std::string bytes_text(double bytes) {
  for (const auto& [unit, size] : {std::pair{" TB", 1e12}, {" GB", 1e9}, {" MB", 1e6}})
    if (bytes >= size) return fixed(bytes / size, 2) + unit;
  return fixed(bytes / 1e3, 1) + " kB";
}

struct PlanOutcome {
  PlannedPlacement planned;
  std::optional<PlanMoves> moves;  // moves relative to the earlier plan
};

void print_table(const std::vector<PlanOutcome>& all) {
  constexpr auto right = Table::Align::right;
  Table table({{"placement"},
               {"everywhere", right},
               {"on one node", right},
               {"nowhere", right},
               {"fullest node", right},
               {"not cached", right},
               {"local", right},
               {"simulated", right},
               {"local, best node", right},
               {"simulated", right},
               {"pulled a request", right},
               {"link busy", right}});
  for (const auto& [p, moves] : all)
    table.row({p.name, std::to_string(p.everywhere), std::to_string(p.sharded), std::to_string(p.nowhere),
               bytes_text(static_cast<double>(*std::ranges::max_element(p.node_bytes))),
               percent(p.expected.nowhere), percent(p.expected.local), percent(p.simulated.any),
               percent(p.predicted.best), percent(p.simulated.best), bytes_text(p.pulled_bytes),
               percent(p.link_busy)});
  table.print(std::cout);
}

// Returns a note if the predicted and the simulated hit shares differ: the popularity file and the
// histories may describe different populations.
std::string where_shares_differ(const PlanOptions& options, const std::vector<PlanOutcome>& all) {
  constexpr double most = 0.02;  // differences below this are noise
  double apart = 0;
  for (const auto& [planned, moves] : all) apart = std::max(apart, prediction_gap(planned));
  if (options.popularity.empty() || apart <= most) return "";
  return "\nlocal and simulated differ by up to " + fixed(100 * apart, 1) +
         " points: local and the plans use " + options.popularity +
         ",\nsimulated uses the histories of --data, which have other items.\n";
}

void print_plan(const PlanOptions& options, const Planning& plan, const std::vector<PlanOutcome>& all) {
  const PlanSetup& s = plan.setup;
  std::cout << plan.workload.items.count() << " items, "
            << bytes_text(static_cast<double>(plan.workload.items.total_bytes())) << " ("
            << (plan.model.empty()
                    ? s.shape.name
                    : "blocks that policy " + plan.policy + " of " + plan.model + " looks up, in whole pages")
            << ", " << fixed(s.item_tokens, 1) << " tokens each on average), accessed as in " << plan.source
            << "; " << s.nodes.size() << " nodes with " << bytes_text(static_cast<double>(s.memory_bytes))
            << " each for items.\n";
  if (!plan.model.empty())
    std::cout << "Assumed: " << s.device.name << " (--device), " << s.link.name << " between nodes (--link), "
              << s.candidates << " candidates a request (" << plan.candidates_source << "), "
              << fixed(s.user_tokens, 0) << " tokens of a user (" << plan.user_tokens_source << ")"
              << (plan.repaired ? "; no token is repaired" : "") << ".\n";
  std::cout << "\n";
  print_table(all);
  std::cout
      << "\nnot cached: share of item accesses whose item is on no node, so that it is computed. local: "
         "share whose item is on the\nnode, if requests run on any node, or on the best node for each. link "
         "busy: share of time with pulls, while a node computes without pause; the limit is "
      << percent(options.alpha) << " (--alpha).\n"
      << where_shares_differ(options, all);
  for (const auto& [p, moves] : all)
    std::cout << "\n" << p.name << ": " << p.why << "\n" << item_area_text(p, plan.pool);
  const bool wants_metis = options.placement == "all" || options.placement == "metis";
  if (wants_metis && (all.empty() || all.back().planned.name != "metis"))
    std::cout << "\nmetis: not planned; it needs histories (--data with sequences) to know which items are "
                 "requested together.\n";
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

void print_moves(const std::string& name, const PlanMoves& moves) {
  std::cout << "\n"
            << name << " relative to the earlier plan: " << moves.changed_items << " items change, "
            << moves.removed_ids.size() << " of them left the catalog; nodes receive " << moves.gains
            << " copies, " << bytes_text(static_cast<double>(moves.gained_bytes)) << ", " << moves.computed
            << " of them computed, and drop " << moves.losses << ".\n";
}

std::optional<PlanOutcome> plan_one(const std::string& name, const PlanOptions& options,
                                    const Planning& plan) {
  if (options.move_from.empty()) {
    auto planned = plan_placement(name, plan.setup, plan.workload);
    return planned ? std::optional(PlanOutcome{std::move(*planned), {}}) : std::nullopt;
  }
  const placement::Items& items = plan.workload.items;
  const PreviousPlacement earlier = read_placement(options.move_from, name);
  const placement::Placement known = known_part(earlier, items.count(), plan.ids);
  auto planned = plan_placement(name, plan.setup, plan.workload, &known);
  if (!planned) return std::nullopt;
  PlanMoves moves = moves_from(earlier, planned->placement, items, plan.ids);
  return PlanOutcome{std::move(*planned), std::move(moves)};
}

void print_all(const PlanOptions& options, const Planning& plan, const std::vector<PlanOutcome>& all) {
  print_plan(options, plan, all);
  for (const auto& [planned, moves] : all)
    if (moves) print_moves(planned.name, *moves);
}

json to_json(const Planning& plan, const std::vector<PlanOutcome>& all) {
  json result{{"input", input_figures(plan.setup)}, {"placements", json::array()}};
  for (const auto& [planned, moves] : all) {
    json one = placement_list(planned.placement, plan.ids);
    one["name"] = planned.name;
    one.update(figures(planned));
    one.update(item_area_figures(planned, plan.pool));
    if (moves) one["moves"] = moves_list(*moves, plan.ids);
    result["placements"].push_back(std::move(one));
  }
  return result;
}

// Refuses options whose values a model has itself.
void check_model_options(const PlanOptions& options) {
  const PlanOptions not_given;
  for (const auto& [name, given] : {std::pair{"--shape", options.shape != not_given.shape},
                                    {"--item-tokens", options.item_tokens.has_value()},
                                    {"--items", options.items > 0}})
    if (given)
      throw std::invalid_argument(std::string(name) +
                                  " is given beside --model, whose blocks and catalog are used; expected one "
                                  "of the two");
}

int run_plan(PlanOptions options, const ConfigOptions& box) {
  check_output(options.json);
  if (!box.model.empty() || !box.config_file.empty()) {
    check_model_options(options);
    options.served = box.load();
  } else if (!box.settings.empty() || !box.data_dir.empty() || !box.prompt.empty()) {
    throw std::invalid_argument(
        "--set, --data-dir and --prompt are about a model; expected --model or --config as well");
  }
  const Planning plan = make_planning(options);
  std::vector<PlanOutcome> all;
  for (const std::string& name : placement_names)
    if (options.placement == "all" || options.placement == name)
      if (auto outcome = plan_one(name, options, plan)) all.push_back(std::move(*outcome));
  if (options.json != "-") print_all(options, plan, all);
  if (!options.json.empty()) write_output(options.json, to_json(plan, all).dump(1) + "\n");
  return 0;
}

void add_inputs(Command command, PlanOptions& options) {
  command.add_option("--data", options.data,
                     "Folder with the catalog and, if there are any, histories; with --model, "
                     "default: the catalog in --data-dir");
  command.add_option("--items", options.items, "Without --data: number of generated items")
      .between(1ULL, 4'000'000'000ULL);
  command.add_option(
      "--popularity", options.popularity,
      "File of lines item, tab, count: the items' popularity; default: counted from the histories");
  command
      .add_option("--trace", options.trace,
                  "Request trace (trace capture): its candidates are counted, instead of the histories")
      .excludes("--popularity");
  command.add_option("--zipf", options.zipf, "Use popularity r^-S for the item of rank r instead")
      .between(0.0, 10.0)
      .excludes("--popularity")
      .excludes("--trace");
  command
      .add_option("--held-out", options.held_out,
                  "Fraction of the histories that only checks the plan, 0 to 1")
      .between(0.0, 0.9)
      .default_shown();
  command
      .add_option("--candidates", options.candidates,
                  "Number of candidates per request; default: of the trace, or 100")
      .between(1, 100'000);
  command
      .add_option("--user-tokens", options.user_tokens,
                  "Mean tokens of a user; default: from the histories, or 1500")
      .between(1.0, 1e7);
  command
      .add_option("--item-tokens", options.item_tokens,
                  "Tokens of each item; default: from the catalog, or 10")
      .between(1, 100'000);
}

// Adds options of --serve that the other plans do not have.
void add_serving(Command command, PlanServeOptions& serve) {
  const auto serving =
      command.add_option("--serve", serve.trace_file,
                         "Instead: find how many nodes of each type serve this request trace in time");
  command
      .add_option("--node", serve.nodes,
                  "With --serve: device and price of a node type, such as A100-40G=3.2; may be repeated")
      .needs(serving);
  command
      .add_option("--p99", serve.target.p99_ms,
                  "With --serve: 99th percentile of latency that is required, in milliseconds")
      .between(1.0, 600'000.0)
      .needs(serving)
      .default_shown();
  command
      .add_option("--lost", serve.target.lost_most,
                  "With --serve: maximum fraction of requests that are refused or late")
      .between(0.0, 1.0)
      .needs(serving)
      .default_shown();
  command.add_option("--nodes-max", serve.target.nodes_max, "With --serve: maximum nodes of a type to try")
      .between(1, 256)
      .needs(serving)
      .default_shown();
  command
      .add_option("--speed", serve.serve.speed,
                  "With --serve: replay speed-up factor of the trace; 2: twice as fast")
      .between(1e-3, 1e6)
      .needs(serving)
      .default_shown();
  command
      .add_option("--requests", serve.serve.requests,
                  "With --serve: number of requests, from the trace's start; default: all")
      .needs(serving);
  command.add_option("--policy", serve.serve.policy, "With --serve: policy that chooses plans")
      .needs(serving)
      .default_shown();
  command
      .add_option("--arrangements", serve.serve.arrangements,
                  "With --serve: arrangements among which the model's form lets a policy choose")
      .needs(serving)
      .default_shown();
  command
      .add_option("--item-share", serve.serve.item_share,
                  "With --serve: initial fraction of a node's memory for items, 0 to 1; default: as a node "
                  "chooses it with pool.item_share: auto")
      .between(0.0, 1.0)
      .needs(serving);
  command.add_option("--seed", serve.serve.seed, "With --serve: seed of the simulation")
      .needs(serving)
      .default_shown();
  command
      .add_option("--cores", serve.cores,
                  "With --serve --model: cores per node; default: as many as this machine has")
      .needs(serving);
  serve.box.add_to(command);
}

// Lists the options that --serve does not take, and whether each was given. --data is allowed only
// with a model or a configuration.
std::vector<std::pair<std::string, bool>> unwanted(const PlanOptions& options,
                                                   const PlanServeOptions& serve) {
  std::vector<std::pair<std::string, bool>> all{{"--items", options.items > 0},
                                                {"--popularity", !options.popularity.empty()},
                                                {"--zipf", options.zipf.has_value()},
                                                {"--trace", !options.trace.empty()},
                                                {"--user-tokens", options.user_tokens.has_value()},
                                                {"--move-from", !options.move_from.empty()}};
  if (serve.box.model.empty() && serve.box.config_file.empty())
    all.emplace_back("--data", !options.data.empty());
  return all;
}

// Refuses options whose values a model or a configuration has itself.
void check_served(const PlanOptions& options, const PlanServeOptions& serve) {
  const PlanOptions not_given;
  const PlanServeOptions nor_here;
  for (const auto& [name, given] :
       {std::pair{"--shape", options.shape != not_given.shape},
        {"--item-tokens", options.item_tokens.has_value()},
        {"--policy", serve.serve.policy != nor_here.serve.policy},
        {"--arrangements", serve.serve.arrangements != nor_here.serve.arrangements},
        {"--item-share", serve.serve.item_share != nor_here.serve.item_share}})
    if (given)
      throw std::invalid_argument(std::string(name) +
                                  " is given beside --model, which has its own; expected settings, such as "
                                  "--set router.policy=item or pool.item_share=0.5");
}

int run_serving(const PlanOptions& options, PlanServeOptions serve) {
  for (const auto& [name, given] : unwanted(options, serve))
    if (given)
      throw std::invalid_argument(name +
                                  " is about the placement of items; expected no such option with --serve");
  if (!serve.box.model.empty() || !serve.box.config_file.empty()) check_served(options, serve);
  serve.data = options.data;
  serve.serve.all_judged = !serve.box.model.empty() || !serve.box.config_file.empty();
  serve.serve.trace = serve.trace_file;
  serve.serve.shape = options.shape;
  serve.serve.link = options.link;
  serve.serve.memory_bytes = options.memory_bytes;
  serve.serve.item_tokens = options.item_tokens.value_or(serve.serve.item_tokens);
  serve.json = options.json;
  return run_plan_serve(serve);
}

}  // namespace

void add_plan(Command app) {
  auto options = std::make_shared<PlanOptions>();
  auto serve = std::make_shared<PlanServeOptions>();
  Command command = app.add_command(
      "plan", "Plan which items belong on which nodes, with gains and reasons: four placements side by side");
  add_inputs(command, *options);
  command.add_option("--nodes", options->nodes, "Number of nodes, or a list of node numbers such as 1,2,5")
      .default_shown();
  command
      .add_option("--memory", options->memory_bytes,
                  "Memory of each node for items (with --serve: for keys and values), such as 150GB or 64GiB")
      .required()
      .in_bytes();
  command
      .add_option("--device", options->device,
                  "Name of a known device, or file of a profile that bench calibrate wrote")
      .default_shown();
  command.add_option("--shape", options->shape, "Model shape").default_shown();
  command.add_option("--link", options->link, "Network between the nodes").default_shown();
  command.add_option("--alpha", options->alpha, "Maximum share of compute time spent on pulls, 0 to 1")
      .between(1e-6, 100.0)
      .default_shown();
  command
      .add_option("--placement", options->placement, "Placement to plan: hrcs, replicate, hash, metis or all")
      .one_of({"hrcs", "replicate", "hash", "metis", "all"})
      .default_shown();
  command.add_option("--move-from", options->move_from,
                     "File of an earlier plan (--json): also report the changes relative to it");
  command.add_option("--json", options->json,
                     "Write the plan with the whole list of items to this file, or - for standard output");
  add_serving(command, *serve);
  command.runs([options, serve] {
    return serve->trace_file.empty() ? run_plan(*options, serve->box) : run_serving(*options, *serve);
  });
}

}  // namespace troupe::deploy
