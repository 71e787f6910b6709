// `troupe-lab bench rank --data`: options, table and JSON. The runs are in bench_rank.cc.
#include <iostream>
#include <nlohmann/json.hpp>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/bench/bench_result.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/node/local_node.h"
#include "deploy/node/prompt_file.h"
#include "deploy/reports/table.h"
#include "router/request/policy.h"

namespace troupe::deploy {

namespace {

std::filesystem::path evaluation_file(const BenchRankOptions& options, const std::string& model) {
  if (!options.evaluation.empty()) return options.evaluation;
  for (const std::filesystem::path folder : {model, options.data})
    for (const char* name : {"eval.tsv.gz", "requests.jsonl", "requests.jsonl.gz"})
      if (std::filesystem::exists(folder / name)) return folder / name;
  throw ImportError(
      "there is no evaluation file; expected --evaluation FILE, or eval.tsv.gz or requests.jsonl in the "
      "model or data folder");
}

BenchRank make_trace_bench(const BenchRankOptions& options) {
  if (!options.evaluation.empty() || !options.profile_tokens.empty() || options.fresh > 0)
    throw std::invalid_argument(
        "--trace has its own requests and profiles; expected no --evaluation, --profile-tokens or --fresh");
  BenchRank bench;
  bench.data = options.data;
  bench.trace = options.trace;
  bench.requests_max = options.requests;
  bench.in_flight = options.in_flight;
  bench.speed = options.closed ? 0 : options.speed;
  return bench;
}

std::string found_share(std::uint64_t hit, std::uint64_t computed) {
  if (hit + computed == 0) return "-";
  return fixed(static_cast<double>(hit) / static_cast<double>(hit + computed), 3);
}

void print_runs(std::ostream& out, const std::vector<BenchRankRun>& runs, bool quality) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{
      {"policy"},           {"requests", right},  {"errors", right},
      {"qps", right},       {"p50 ms", right},    {"p99 ms", right},
      {"CPU s", right},     {"tokens", right},    {"computed", right},
      {"reused", right},    {"hit rate", right},  {"user plans", right},
      {"user hits", right}, {"item hits", right}, {"observed/predicted p10, p50, p90", right}};
  if (quality) columns.insert(columns.end(), {{"recall@10", right}, {"ndcg@10", right}});
  Table table(columns);
  for (const BenchRankRun& r : runs) {
    std::vector<std::string> cells{
        r.policy,
        std::to_string(r.requests),
        std::to_string(r.errors),
        fixed(r.qps, 1),
        fixed(r.p50_ms, 2),
        fixed(r.p99_ms, 2),
        fixed(r.cpu_seconds, 1),
        std::to_string(r.tokens_total),
        std::to_string(r.tokens_computed),
        std::to_string(r.tokens_reused),
        fixed(r.hit_rate, 3),
        std::to_string(r.plans_user),
        r.plans_user > 0 ? found_share(r.user_blocks_hit, r.user_blocks_computed) : "-",
        r.plans_item > 0 ? found_share(r.item_blocks_hit, r.item_blocks_computed) : "-",
        fixed(r.prediction_p10, 2) + ", " + fixed(r.prediction_p50, 2) + ", " + fixed(r.prediction_p90, 2)};
    if (quality) cells.insert(cells.end(), {fixed(r.recall_at_10, 4), fixed(r.ndcg_at_10, 4)});
    table.row(std::move(cells));
  }
  table.print(out);
}

// Prints the reuse by tenth of the run, to show whether it lasts when no combination repeats.
void print_tenths(std::ostream& out, const std::vector<BenchRankRun>& runs) {
  for (const BenchRankRun& run : runs) {
    out << run.policy << ": tokens reused, by tenth of the requests:";
    for (const double rate : run.tenths) out << ' ' << fixed(100 * rate, 1);
    out << " %\n";
  }
}

// Prints µs of CPU per request and each component's share, by policy.
void print_profiles(std::ostream& out, const std::vector<BenchRankRun>& runs) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{{"CPU by component, us per request"}};
  for (const BenchRankRun& run : runs) columns.insert(columns.end(), {{run.policy, right}, {"share", right}});
  Table table(columns);
  for (std::size_t component = 0; component < runs.front().profile.size(); ++component) {
    std::vector<std::string> cells{runs.front().profile[component].component};
    for (const BenchRankRun& run : runs) {
      const double seconds = run.profile[component].seconds;
      cells.push_back(
          fixed(1e6 * seconds / static_cast<double>(std::max<std::uint64_t>(1, run.requests)), 1));
      cells.push_back(fixed(100 * seconds / run.cpu_seconds, 1) + " %");
    }
    table.row(std::move(cells));
  }
  table.print(out);
}

}  // namespace

BenchRank make_rank_bench(const BenchRankOptions& options, const Config& config) {
  if (!options.trace.empty()) return make_trace_bench(options);
  const std::string model = required_directory(config.model);
  BenchRank bench;
  bench.data = options.data;
  bench.in_flight = options.in_flight;
  bench.fresh = options.fresh;
  bench.seed = options.seed;
  bench.rows = read_evaluation(evaluation_file(options, model), options.data);
  if (bench.rows.empty()) throw ImportError("the evaluation file has no rows; expected at least one");
  const std::size_t requests =
      options.requests > 0
          ? options.requests
          : static_cast<std::size_t>(options.visits_per_user * static_cast<double>(bench.rows.size()));
  bench.visits = make_visits(bench.rows, requests, options.visits_per_user, options.seed);
  std::size_t users = 0;
  for (const Visit& visit : bench.visits) users = std::max(users, visit.user + 1);
  if (!options.profile_tokens.empty()) {
    const kernels::PlanLimits limits = family_of(bench.families, model).describe(model, config).limits;
    const std::vector<PutItem> items = read_items(options.data, read_vocabulary_if_any(model, limits));
    const std::size_t item_tokens = items.empty() ? 0 : items.front().tokens.size();
    if (item_tokens == 0) throw ImportError("the catalog has no items; expected items with tokens");
    expand_histories(bench.rows, parse_profile_tokens(options.profile_tokens), item_tokens, options.seed);
  }
  // No visit is by one of these users.
  for (std::size_t i = users; i < bench.rows.size(); ++i) bench.rows[i].history.clear();
  return bench;
}

int run_bench_rank(const BenchRankOptions& options) {
  const Config config = options.box.load();
  for (const std::string& policy : options.policies)  // checks all before the first run
    if (!router::find_policy(policy))
      throw std::invalid_argument("--policy has " + router::policy_fault_text(policy));
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  BenchRank bench = make_rank_bench(options, config);
  bench.profile = options.profile;
  BenchMemory memory = bench_memory(bench, config);
  if (!options.memory.empty()) {
    Config sized = config;
    sized.set("pool.memory", options.memory);
    memory.pool_bytes = sized.pool.memory;
  }
  people << "item blocks " << memory.item_bytes / 1'000'000 << " MB, user blocks "
         << memory.user_bytes / 1'000'000 << " MB, key-value memory " << memory.pool_bytes / 1'000'000
         << " MB\n";
  memory.split = options.item_share;
  std::vector<BenchRankRun> runs;
  BenchResult result{.model = options.box.model,
                     .data = options.data,
                     .trace = options.trace,
                     .settings = options.box.settings,
                     .requests_max = options.requests,
                     .in_flight = options.in_flight,
                     .speed = bench.speed,
                     .pool_bytes = memory.pool_bytes,
                     .item_bytes = memory.item_bytes,
                     .user_bytes = memory.user_bytes};
  for (const std::string& policy : options.policies)
    runs.push_back(run_policy(bench, config, memory, policy));
  result.runs = runs;
  nlohmann::json json = to_json(result);
  json.update({{"seed", options.seed}, {"fresh", options.fresh}, {"profile_tokens", options.profile_tokens}});
  print_runs(people, runs, options.profile_tokens.empty() && options.fresh == 0);
  if (options.fresh > 0) print_tenths(people, runs);
  if (options.profile) print_profiles(people << "\n", runs);
  if (!options.json.empty()) write_output(options.json, json.dump(2) + "\n");
  return 0;
}

void BenchRankOptions::add_to(Command command) {
  box.add_to(command);
  command.add_option("--data", data, "Catalog folder, as for import");
  command.add_option("--evaluation", evaluation,
                     "File of requests; default: eval.tsv.gz or requests.jsonl in the model or data folder");
  command.add_option("--policy", policies, "Policies to run, separated by commas")
      .comma_separated()
      .default_shown();
  command.add_option(
      "--trace", trace,
      "Use the requests of this trace (docs/reference/trace-format.md) instead of an evaluation file");
  command.add_option("--speed", speed, "With --trace: replay speed-up factor; 2: twice as fast")
      .between(1e-6, 1e6)
      .default_shown();
  command.add_flag("--closed", closed,
                   "With --trace: keep --in-flight requests in flight instead of following its times");
  command
      .add_option("--requests", requests,
                  "Number of requests; default: visits per user × users of the file, or the whole trace")
      .between(1, 100'000'000);
  command.add_option("--visits-per-user", visits_per_user, "Mean number of visits per user")
      .between(1.0, 1000.0)
      .default_shown();
  command
      .add_option("--fresh", fresh,
                  "Draw this many candidates per request by popularity, so that no combination repeats "
                  "(quality is not measured)")
      .between(1, 2'000);
  command.add_option("--profile-tokens", profile_tokens,
                     "Lengthen histories to MEAN[,SIGMA[,MAX]] tokens, log-normal (quality is not measured)");
  command.add_option("--memory", memory,
                     "Memory for keys and values, such as 512MiB; default: items fit, users do not");
  command
      .add_option("--item-share", item_share,
                  "Fraction of --memory for items, 0 to 1; default: enough for all items, and at least what "
                  "three quarters of the users leave")
      .between(0.0, 1.0);
  command.add_option("--in-flight", in_flight, "Number of requests in flight, in a closed loop")
      .between(1, 100000)
      .default_shown();
  command.add_flag("--profile", profile, "Print the requests' CPU time by component");
  command.add_option("--seed", seed, "Seed for drawing the visits").default_shown();
  add_runs_option(command, json);
}

}  // namespace troupe::deploy
