// `troupe-lab bench prefill|suffix|rank|engine --shape`: options, tables and JSON of the engine's
// profile and race. Each shape runs in the order troupe, peers, troupe, so that a change of the
// machine's speed shows. Troupe's figures cover both runs.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/bench_peers.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

struct PassPart {
  const char* name;
  double kernels::PassTimes::*seconds;
};
constexpr std::array<PassPart, 7> parts{{{"linear", &kernels::PassTimes::linear},
                                         {"attention", &kernels::PassTimes::attention},
                                         {"readout", &kernels::PassTimes::readout},
                                         {"elementwise", &kernels::PassTimes::elementwise},
                                         {"keys_values", &kernels::PassTimes::keys_values},
                                         {"embedding", &kernels::PassTimes::embedding},
                                         {"planning", &kernels::PassTimes::planning}}};

// Troupe's figures on one workload: medians over the rounds, and the best round.
struct EngineFigures {
  double tokens_per_cpu_second = 0, best = 0, gflops = 0, fma_gflops = 0, share_of_fma = 0;
  // ideal: tokens per CPU-second at the peak multiply-add rate
  double wall_ms = 0, cpu_ms = 0, ideal = 0;
  std::array<double, parts.size()> part_shares{};  // fractions of CPU time
  bool has_parts = false;
};

struct WorkloadRun {
  Workload workload;
  std::vector<EngineRound> rounds;
  double tokens = 0;
  Flops flops;
  EngineFigures figures;
};

struct ShapeRun {
  const EngineShape* shape;
  std::uint32_t threads = 1;
  EngineMemory memory;
  std::vector<WorkloadRun> troupe;
  std::vector<PeerRun> peers;
};

template <class Value>
double median_of(const std::vector<EngineRound>& rounds, Value value) {
  std::vector<double> values;
  for (const EngineRound& round : rounds) values.push_back(value(round));
  return median(std::move(values));
}

EngineFigures figures_of(const WorkloadRun& run, kernels::WeightFormat weights) {
  EngineFigures f;
  const double cpu = median_of(run.rounds, [](auto& r) { return r.cpu_seconds; });
  const double least = std::ranges::min(run.rounds, {}, &EngineRound::cpu_seconds).cpu_seconds;
  f.cpu_ms = cpu * 1e3;
  f.wall_ms = median_of(run.rounds, [](auto& r) { return r.wall_seconds; }) * 1e3;
  f.fma_gflops = median_of(run.rounds, [](auto& r) { return r.fma_rate; }) / 1e9;
  f.share_of_fma =
      median_of(run.rounds, [&](auto& r) { return run.flops.total() / r.cpu_seconds / r.fma_rate; });
  f.tokens_per_cpu_second = run.tokens / cpu;
  f.best = run.tokens / least;
  f.gflops = run.flops.total() / cpu / 1e9;
  f.ideal = run.tokens / ideal_seconds(run.flops, weights, f.fma_gflops * 1e9);
  double all_cpu = 0;
  for (const EngineRound& round : run.rounds) all_cpu += round.cpu_seconds;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const EngineRound& round : run.rounds) f.part_shares[p] += round.times.*parts[p].seconds / all_cpu;
    f.has_parts |= f.part_shares[p] > 0;
  }
  return f;
}

double rest_share(const EngineFigures& f) {
  double rest = 1;
  for (const double share : f.part_shares) rest -= share;
  return rest;
}

// Returns the peer with the most tokens per CPU-second (median); null: no peer ran this workload.
const PeerResult* best_peer(const ShapeRun& run, Workload workload) {
  const PeerResult* best = nullptr;
  for (const PeerRun& peer : run.peers)
    if (const PeerResult* line = peer.find(workload))
      if (best == nullptr || line->tokens_per_cpu_second() > best->tokens_per_cpu_second()) best = line;
  return best;
}

double ratio(const EngineFigures& f, const PeerResult& peer) {
  return f.tokens_per_cpu_second / peer.tokens_per_cpu_second();
}
double least_peer_wall_ms(const ShapeRun& run, Workload workload) {
  double least = std::numeric_limits<double>::infinity();
  for (const PeerRun& peer : run.peers)
    if (const PeerResult* line = peer.find(workload)) least = std::min(least, line->wall_ms);
  return least;
}
// Ratio if both had run at the same multiply-add rate. This removes slowdowns of one run by other
// processes on the core.
double ratio_at_equal_fma(const EngineFigures& f, const PeerResult& peer) {
  return ratio(f, peer) * peer.fma_gflops / f.fma_gflops;
}

void measure_troupe(EngineBench& bench, ShapeRun& run, std::uint32_t rounds) {
  for (WorkloadRun& workload : run.troupe) {
    const std::vector<EngineRound> more = bench.measure(workload.workload, rounds);
    workload.rounds.insert(workload.rounds.end(), more.begin(), more.end());
  }
}

ShapeRun run_shape(const BenchEngineOptions& options, const EngineSetup& setup, const EngineShape& shape,
                   const std::vector<Workload>& workloads, const std::optional<PeerFolders>& folders) {
  std::optional<CorePin> pinned;
  if (setup.threads == 1) pinned.emplace();  // peers inherit it
  ShapeRun run{&shape, setup.threads, {}, {}, {}};
  EngineBench bench(shape, setup);
  run.memory = bench.memory();
  for (const Workload workload : workloads) {
    const WorkloadPlan work = make_workload(workload, bench.config().vocabulary, setup.seed);
    const std::size_t cached = work.cached ? work.plan.segments[0].tokens.size() : 0;
    run.troupe.push_back({workload,
                          {},
                          static_cast<double>(kernels::token_count(work.plan) - cached),
                          useful_flops(bench.config(), work),
                          {}});
  }
  measure_troupe(bench, run, options.rounds);
  if (folders) {
    for (const Peer& peer : peers_to_race(setup.weights == kernels::WeightFormat::int8, options.all_peers))
      run.peers.push_back(run_peer(*folders, peer, shape, setup.threads, options.rounds, workloads));
    measure_troupe(bench, run, options.rounds);
  }
  for (WorkloadRun& workload : run.troupe) workload.figures = figures_of(workload, setup.weights);
  return run;
}

std::string percent_or_dash(double share) { return std::isfinite(share) ? fixed(100 * share, 1) : "-"; }

std::vector<Table::Column> rate_columns(const std::vector<PeerRun>& peers) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{
      {"shape"},     {"threads", right}, {"workload"},        {"tok/cpu-s", right}, {"best", right},
      {"GF", right}, {"FMA", right},     {"% of FMA", right}, {"wall ms", right}};
  for (const PeerRun& peer : peers) columns.insert(columns.end(), {{peer.peer.name(), right}, {"%", right}});
  if (!peers.empty())
    columns.insert(columns.end(),
                   {{"× best peer", right}, {"at equal FMA", right}, {"least peer wall ms", right}});
  columns.insert(columns.end(), {{"ideal", right}, {"% of ideal", right}});
  return columns;
}

std::vector<std::string> rate_cells(const ShapeRun& run, const WorkloadRun& workload) {
  const EngineFigures& f = workload.figures;
  std::vector<std::string> cells{std::string(run.shape->name),
                                 std::to_string(run.threads),
                                 std::string(workload_name(workload.workload)),
                                 fixed(f.tokens_per_cpu_second, 0),
                                 fixed(f.best, 0),
                                 fixed(f.gflops, 1),
                                 fixed(f.fma_gflops, 1),
                                 percent_or_dash(f.share_of_fma),
                                 fixed(f.wall_ms, 1)};
  for (const PeerRun& peer : run.peers) {
    const PeerResult* line = peer.find(workload.workload);
    cells.push_back(line ? fixed(line->tokens_per_cpu_second(), 0) : "failed");
    cells.push_back(line ? percent_or_dash(line->share_of_fma) : "");
  }
  if (const PeerResult* best = best_peer(run, workload.workload))
    cells.insert(cells.end(), {fixed(ratio(f, *best), 2), fixed(ratio_at_equal_fma(f, *best), 2),
                               fixed(least_peer_wall_ms(run, workload.workload), 1)});
  else if (!run.peers.empty())
    cells.insert(cells.end(), 3, "");
  cells.insert(cells.end(), {fixed(f.ideal, 0), percent_or_dash(f.tokens_per_cpu_second / f.ideal)});
  return cells;
}

void print_rates(std::ostream& out, const std::vector<ShapeRun>& runs) {
  Table table(rate_columns(runs.front().peers));
  for (const ShapeRun& run : runs)
    for (const WorkloadRun& workload : run.troupe) table.row(rate_cells(run, workload));
  table.print(out);
}

void print_parts(std::ostream& out, const std::vector<ShapeRun>& runs) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{{"% of CPU time"}, {"threads", right}, {"workload"}};
  for (const PassPart& part : parts) columns.push_back({part.name, right});
  columns.push_back({"rest", right});
  Table table(columns);
  for (const ShapeRun& run : runs)
    for (const WorkloadRun& workload : run.troupe) {
      std::vector<std::string> cells{std::string(run.shape->name), std::to_string(run.threads),
                                     std::string(workload_name(workload.workload))};
      for (const double share : workload.figures.part_shares) cells.push_back(percent_or_dash(share));
      cells.push_back(percent_or_dash(rest_share(workload.figures)));
      table.row(std::move(cells));
    }
  table.print(out);
}

void print_notes(std::ostream& out, const BenchEngineOptions& options, const std::vector<ShapeRun>& runs) {
  for (const ShapeRun& run : runs) {
    out << run.shape->name << ", " << run.threads << " threads: weights "
        << fixed(static_cast<double>(run.memory.weight_bytes) / 1e6, 1)
        << " MB as float32, resident once loaded "
        << fixed(static_cast<double>(run.memory.resident_bytes) / 1e6, 1) << " MB ("
        << fixed(
               static_cast<double>(run.memory.resident_bytes) / static_cast<double>(run.memory.weight_bytes),
               2)
        << " ×)\n";
    for (const PeerRun& peer : run.peers)
      if (!peer.failure.empty()) out << "  " << peer.peer.name() << ": " << peer.failure << "\n";
  }
  out << "weights " << options.weights << ", keys and values " << options.kv << ", " << options.rounds
      << " rounds" << (options.against.empty() ? "" : " before the peers and as many after")
      << R"(; medians, and the best round's.
GF: operations of the pass per CPU-second. FMA: multiply-add rate of a thread, sampled in every round.
"rank" reads 2 vocabulary rows per candidate, as a ranker does; "all logits" reads all of them, as the other
engines always do.
Ideal: attention and logits at 80 % of FMA, linear layers at )"
      << (options.weights == "int8"   ? "240"
          : options.weights == "bf16" ? "172"
                                      : "90")
      << " %.\n";
}

json to_json(const BenchEngineOptions& options, const ShapeRun& run, const WorkloadRun& workload) {
  const EngineFigures& f = workload.figures;
  json entry{{"engine", "troupe"},
             {"shape", run.shape->name},
             {"workload", workload_name(workload.workload)},
             {"threads", run.threads},
             {"weights", options.weights},
             {"kv", options.kv},
             {"rounds", workload.rounds.size()},
             {"tokens_per_cpu_second", f.tokens_per_cpu_second},
             {"best_tokens_per_cpu_second", f.best},
             {"ideal_tokens_per_cpu_second", f.ideal},
             {"gflops", f.gflops},
             {"fma_gflops", f.fma_gflops},
             {"share_of_fma", f.share_of_fma},
             {"wall_ms", f.wall_ms},
             {"cpu_ms", f.cpu_ms},
             {"weight_bytes", run.memory.weight_bytes},
             {"resident_bytes", run.memory.resident_bytes}};
  if (f.has_parts)
    for (std::size_t p = 0; p < parts.size(); ++p) entry["parts"][parts[p].name] = f.part_shares[p];
  if (const PeerResult* best = best_peer(run, workload.workload))
    entry.update(
        {{"ratio_to_best_peer", ratio(f, *best)}, {"ratio_at_equal_fma", ratio_at_equal_fma(f, *best)}});
  return entry;
}

json to_json(const BenchEngineOptions& options, const ShapeRun& run, const PeerRun& peer,
             const PeerResult& line) {
  return {{"engine", peer.peer.name()},
          {"shape", run.shape->name},
          {"workload", line.workload},
          {"threads", run.threads},
          {"weights", peer.peer.weights},
          {"kv", peer.peer.kv()},
          {"rounds", options.rounds},
          {"tokens_per_cpu_second", line.tokens_per_cpu_second()},
          {"best_tokens_per_cpu_second", line.best_tokens_per_cpu_second()},
          {"fma_gflops", line.fma_gflops},
          {"share_of_fma", line.share_of_fma},
          {"wall_ms", line.wall_ms},
          {"cpu_ms", line.cpu_ms}};
}

std::string json_text(const BenchEngineOptions& options, const std::vector<ShapeRun>& runs) {
  json all{{"runs", json::array()}, {"failures", json::array()}};
  for (const ShapeRun& run : runs) {
    for (const WorkloadRun& workload : run.troupe) all["runs"].push_back(to_json(options, run, workload));
    for (const PeerRun& peer : run.peers) {
      for (const PeerResult& line : peer.lines) all["runs"].push_back(to_json(options, run, peer, line));
      if (!peer.failure.empty())
        all["failures"].push_back({{"engine", peer.peer.name()},
                                   {"shape", run.shape->name},
                                   {"threads", run.threads},
                                   {"failure", peer.failure}});
    }
  }
  return all.dump(2) + "\n";
}

template <std::size_t N>
std::vector<std::string> words(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

}  // namespace

void BenchEngineOptions::add_to(Command command) {
  Option shape = command.add_option("--shape", shapes,
                                    "Model shape: tiny, small or qwen05; several separated by commas");
  shape.comma_separated().one_of({"tiny", "small", "qwen05"});
  const auto of_engine = [&](Option option) { return option.needs(shape); };
  of_engine(
      command.add_option("--threads", threads, "Number of cores a pass may use; several separated by commas"))
      .comma_separated()
      .between(1, 1024)
      .default_shown();
  of_engine(command.add_option("--weights", weights, "Number format of linear layers: f32, int8 or bf16"))
      .one_of(words(kernels::weight_format_names))
      .default_shown();
  of_engine(command.add_option("--kv", kv, "Number format of keys and values: f32, f16 or bf16"))
      .one_of(words(kernels::kv_format_names))
      .default_shown();
  of_engine(command.add_option("--page-tokens", page_tokens, "Tokens per page of keys and values"))
      .between(1, 256)
      .default_shown();
  of_engine(command.add_option("--rounds", rounds, "Number of timed passes"))
      .between(1, 1000)
      .default_shown();
  Option race = of_engine(
      command.add_option("--against", against,
                         "Also run the other engines with the drivers in this folder (tests/bench/peers)"));
  command
      .add_option("--peers", peers,
                  "Folder where setup.sh installed the other engines; default: troupe-peers in the folder "
                  "for temporary files")
      .needs(race);
  command
      .add_flag("--all-peers", all_peers, "With --against: also run prebuilt llama.cpp and the 8-bit engines")
      .needs(race);
}

int run_bench_engine(const BenchEngineOptions& options, const std::vector<Workload>& workloads) {
  check_output(options.json);
  std::optional<PeerFolders> folders;
  if (!options.against.empty())
    folders = find_peers(options.against, options.peers.empty()
                                              ? std::filesystem::temp_directory_path() / "troupe-peers"
                                              : std::filesystem::path(options.peers));
  EngineSetup setup;
  setup.weights = kernels::find_weight_format(options.weights).value();
  setup.kv = kernels::find_kv_format(options.kv).value();
  setup.page_tokens = options.page_tokens;
  std::vector<ShapeRun> runs;
  for (const std::string& shape : options.shapes)
    for (const std::uint32_t threads : options.threads) {
      setup.threads = threads;
      runs.push_back(run_shape(options, setup, find_shape(shape), workloads, folders));
    }
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_rates(people, runs);
  const auto has_parts = [](const ShapeRun& run) { return run.troupe.front().figures.has_parts; };
  if (std::ranges::any_of(runs, has_parts)) print_parts(people << "\n", runs);
  print_notes(people << "\n", options, runs);
  if (!options.json.empty()) write_output(options.json, json_text(options, runs));
  return 0;
}

}  // namespace troupe::deploy
