// `troupe-lab bench cost`: options, table and JSON. The measurement is in bench_cost.h.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_cost.h"
#include "deploy/lab/bench/engine_race.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"
#include "router/request/policy.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct CostOptions {
  BenchRankOptions rank;  // of these only what add_cost declares
  std::string policy, json;
  std::vector<std::string> weights{"f32", "bf16", "int8"}, kv{"auto"};
  std::uint32_t rounds = 3;
  std::optional<double> price;
};

std::string signed_mean(const Mean& mean) {
  return (mean.value < 0 ? "" : "+") + fixed(mean.value, 4) + " ± " + fixed(mean.standard_error, 4);
}

double price_of(const CostRow& row, double per_core_hour) {
  return row.core_hours_per_million * per_core_hour;
}

void print_costs(std::ostream& out, const CostOptions& options, const std::vector<CostRow>& rows) {
  constexpr auto right = Table::Align::right;
  const bool judged = rows.front().ndcg.has_value();
  std::vector<Table::Column> columns{{"weights"},
                                     {"kv"},
                                     {"rankings/CPU-s", right},
                                     {"× first", right},
                                     {"GB", right},
                                     {"of it KV", right},
                                     {"rankings/CPU-s per GB", right}};
  if (judged) columns.insert(columns.end(), {{"ndcg@10", right}, {"change", right}});
  columns.insert(columns.end(), {{"overlap@10", right}, {"core-hours a million", right}});
  if (options.price) columns.push_back({"price a million", right});
  Table table(columns);
  for (const CostRow& row : rows) {
    std::vector<std::string> cells{std::string(format_name(row.formats.weights)),
                                   std::string(format_name(row.formats.kv)),
                                   fixed(row.rankings_per_cpu_second, 1),
                                   fixed(row.ratio, 2),
                                   fixed(row.gigabytes, 3),
                                   fixed(row.pool_gigabytes, 3),
                                   fixed(row.rate_per_gigabyte(), 1)};
    if (judged)
      cells.insert(cells.end(),
                   {fixed(row.ndcg->value, 4), &row == &rows.front() ? "" : signed_mean(*row.change)});
    cells.insert(cells.end(), {fixed(row.overlap.value, 4), fixed(row.core_hours_per_million, 3)});
    if (options.price) cells.push_back(fixed(price_of(row, *options.price), 4));
    table.row(std::move(cells));
  }
  table.print(out);
}

void print_notes(std::ostream& out, const CostOptions& options, const std::vector<CostRuns>& runs) {
  out << runs.front().requests << " requests in " << options.rounds << " rounds under policy "
      << options.policy << R"(, formats in turn; medians. CPU time is that of the node, of all its parts.
GB: memory that the node has once the requests are answered; KV: its memory for keys and values.
change: of ndcg@10 to the first line, request by request, with its standard error.
overlap@10: share of the first line's ten best items that are among the ten best.
)";
}

json to_json(const CostOptions& options, const std::vector<CostRuns>& runs,
             const std::vector<CostRow>& rows) {
  json all{{"runs", json::array()},     {"model", options.rank.box.model},
           {"data", options.rank.data}, {"policy", options.policy},
           {"rounds", options.rounds},  {"requests", runs.front().requests}};
  if (options.price) all["price_per_core_hour"] = *options.price;
  for (const CostRow& row : rows) {
    json entry{{"weights", format_name(row.formats.weights)},
               {"kv", format_name(row.formats.kv)},
               {"rankings_per_cpu_second", row.rankings_per_cpu_second},
               {"ratio_to_first", row.ratio},
               {"resident_bytes", row.gigabytes * 1e9},
               {"pool_bytes", row.pool_gigabytes * 1e9},
               {"rankings_per_cpu_second_and_gigabyte", row.rate_per_gigabyte()},
               {"overlap_at_10", to_json(row.overlap)},
               {"core_hours_per_million", row.core_hours_per_million}};
    if (row.ndcg) entry.update({{"ndcg_at_10", to_json(*row.ndcg)}, {"ndcg_change", to_json(*row.change)}});
    if (options.price) entry["price_per_million"] = price_of(row, *options.price);
    all["runs"].push_back(std::move(entry));
  }
  return all;
}

int run_bench_cost(CostOptions& options) {
  check_output(options.json);
  const Config config = options.rank.box.load();
  if (options.policy.empty()) options.policy = config.router.policy;
  if (!router::find_policy(options.policy))
    throw std::invalid_argument("--policy has " + router::policy_fault_text(options.policy));
  const CostSetup setup{formats_of(options.weights, options.kv), options.policy, options.rounds};
  const BenchRank bench = make_rank_bench(options.rank, config);
  std::vector<CostRuns> runs;
  {
    const std::uint64_t all = setup.formats.size() * setup.rounds;
    Progress progress("runs", all);
    std::uint64_t done = 0;
    runs = measure_costs(bench, config, setup, [&] { progress.at(++done); });
  }
  const std::vector<CostRow> rows = cost_rows(runs);
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_costs(people, options, rows);
  print_notes(people << "\n", options, runs);
  if (!options.json.empty()) write_output(options.json, to_json(options, runs, rows).dump(2) + "\n");
  return 0;
}

void add_workload(Command command, CostOptions& options) {
  BenchRankOptions& rank = options.rank;
  rank.in_flight = 1;
  rank.box.add_to(command);
  command.add_option("--data", rank.data, "Catalog folder, as for import").required();
  command.add_option("--evaluation", rank.evaluation,
                     "File of requests; default: eval.tsv.gz or requests.jsonl in the model or data folder");
  command
      .add_option("--requests", rank.requests,
                  "Number of requests; default: visits per user × users of the file")
      .between(1, 100'000'000);
  command.add_option("--visits-per-user", rank.visits_per_user, "Mean number of visits per user")
      .between(1.0, 1000.0)
      .default_shown();
  command.add_option("--in-flight", rank.in_flight, "Number of requests in flight, in a closed loop")
      .between(1, 100000)
      .default_shown();
  command.add_option("--seed", rank.seed, "Seed for drawing the visits").default_shown();
}

}  // namespace

void add_cost(Command bench) {
  auto options = std::make_shared<CostOptions>();
  Command command = bench.add_command(
      "cost", "Price a million rankings of a model in each number format: CPU time, memory and quality");
  add_workload(command, *options);
  command.add_option("--policy", options->policy, "Policy of the node; default: router.policy");
  command
      .add_option("--weights", options->weights,
                  "Number formats of linear layers, separated by commas: f32, int8, bf16. The first is "
                  "compared with")
      .comma_separated()
      .one_of({"f32", "int8", "bf16"})
      .default_shown();
  command
      .add_option("--kv", options->kv,
                  "Number formats of keys and values, separated by commas: f32, f16, bf16 or auto, which is "
                  "bf16 with bf16 and int8 weights, else f32")
      .comma_separated()
      .one_of({"f32", "f16", "bf16", "auto"})
      .default_shown();
  command.add_option("--rounds", options->rounds, "Number of runs of each format")
      .between(1, 1000)
      .default_shown();
  command
      .add_option("--price-per-core-hour", options->price,
                  "Price of a core for an hour, in any currency, for the price of a million rankings")
      .between(0.0, 1e6);
  add_runs_option(command, options->json);
  command.runs([options] { return run_bench_cost(*options); });
}

}  // namespace troupe::deploy
