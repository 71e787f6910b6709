// `troupe-lab bench prefill|suffix|rank|engine --shape`: options, tables and JSON of the engine's
// profile and race (engine_race.h).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "deploy/data/text_file.h"
#include "deploy/lab/bench/engine_race.h"
#include "deploy/lab/commands/command_bench.h"
#include "deploy/reports/table.h"

namespace troupe::deploy {

namespace {

using nlohmann::json;

constexpr auto to_right = Table::Align::right;

std::string percent_or_dash(double share) { return std::isfinite(share) ? fixed(100 * share, 1) : "-"; }

// Heading of the ratios to the best peer of a width; "×" alone would be that to all.
std::string over_peer(std::string_view width) { return "× best " + std::string(width) + " peer"; }

// Cells that name a row of a table: shape, threads, formats, workload.
std::vector<Table::Column> name_columns(const char* first) {
  return {{first}, {"threads", to_right}, {"workload"}, {"weights"}, {"kv"}};
}
std::vector<std::string> name_cells(const ShapeRun& run, const EngineFormats& formats, Workload workload) {
  return {std::string(run.shape->name), std::to_string(run.threads), std::string(workload_name(workload)),
          std::string(format_name(formats.weights)), std::string(format_name(formats.kv))};
}

bool has_ratio_to_f32(const ShapeRun& run) {
  return run.formats.size() > 1 && run.formats.front().workloads.front().figures.ratio_to_f32.has_value();
}

std::vector<Table::Column> rate_columns(const ShapeRun& run) {
  std::vector<Table::Column> columns = name_columns("shape");
  columns.insert(columns.end(), {{"tok/cpu-s", to_right},
                                 {"best", to_right},
                                 {"GF", to_right},
                                 {"FMA", to_right},
                                 {"% of FMA", to_right},
                                 {"wall ms", to_right}});
  if (has_ratio_to_f32(run)) columns.push_back({"× f32", to_right});
  for (const PeerRun& peer : run.peers)
    columns.insert(columns.end(), {{peer.peer.name(), to_right}, {"%", to_right}});
  if (!run.peers.empty())
    for (const char* const name : {"× best peer", "at equal FMA", "least peer wall ms"})
      columns.push_back({name, to_right});
  if (const auto widths = widths_of(run.peers); widths.size() > 1)
    for (const std::string_view width : widths) columns.push_back({over_peer(width), to_right});
  columns.insert(columns.end(), {{"ideal", to_right}, {"% of ideal", to_right}});
  return columns;
}

void append_peer_cells(std::vector<std::string>& cells, const ShapeRun& run, const WorkloadRun& workload) {
  const EngineFigures& f = workload.figures;
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
  if (const auto widths = widths_of(run.peers); widths.size() > 1)
    for (const std::string_view width : widths) {
      const PeerResult* best = best_peer(run, workload.workload, width);
      cells.push_back(best ? fixed(ratio(f, *best), 2) : "");
    }
}

std::vector<std::string> rate_cells(const ShapeRun& run, const FormatRun& format,
                                    const WorkloadRun& workload) {
  const EngineFigures& f = workload.figures;
  std::vector<std::string> cells = name_cells(run, format.formats, workload.workload);
  const std::vector<std::string> rates{
      fixed(f.tokens_per_cpu_second, 0), fixed(f.best, 0),   fixed(f.gflops, 1), fixed(f.fma_gflops, 1),
      percent_or_dash(f.share_of_fma),   fixed(f.wall_ms, 1)};
  cells.insert(cells.end(), rates.begin(), rates.end());
  if (has_ratio_to_f32(run)) cells.push_back(fixed(*f.ratio_to_f32, 2));
  append_peer_cells(cells, run, workload);
  cells.insert(cells.end(), {fixed(f.ideal, 0), percent_or_dash(f.tokens_per_cpu_second / f.ideal)});
  return cells;
}

// Calls `row` for all workloads of all formats, the formats of a workload one after the other.
template <class Row>
void for_rows(const std::vector<ShapeRun>& runs, Row row) {
  for (const ShapeRun& run : runs)
    for (std::size_t w = 0; w < run.formats.front().workloads.size(); ++w)
      for (const FormatRun& format : run.formats) row(run, format, format.workloads[w]);
}

void print_rates(std::ostream& out, const std::vector<ShapeRun>& runs) {
  Table table(rate_columns(runs.front()));
  for_rows(runs, [&](const ShapeRun& run, const FormatRun& format, const WorkloadRun& workload) {
    table.row(rate_cells(run, format, workload));
  });
  table.print(out);
}

void print_parts(std::ostream& out, const std::vector<ShapeRun>& runs) {
  std::vector<Table::Column> columns = name_columns("% of CPU time");
  for (const PassPart& part : pass_parts) columns.push_back({part.name, to_right});
  columns.push_back({"rest", to_right});
  Table table(columns);
  for_rows(runs, [&](const ShapeRun& run, const FormatRun& format, const WorkloadRun& workload) {
    std::vector<std::string> cells = name_cells(run, format.formats, workload.workload);
    for (const double share : workload.figures.part_shares) cells.push_back(percent_or_dash(share));
    cells.push_back(percent_or_dash(workload.figures.rest_share()));
    table.row(std::move(cells));
  });
  table.print(out);
}

// Prints what computes each format on this CPU, and its multiply-add rate: medians over the workloads.
void print_versions(std::ostream& out, const ShapeRun& run) {
  Table table({{"weights"},
               {"kv"},
               {"linear layers"},
               {"instruction"},
               {"GF of a thread", to_right},
               {"attention"},
               {"instruction"},
               {"GF of a thread", to_right}});
  const auto rate = [](const FormatRun& format, double EngineFigures::*of) {
    std::vector<double> rates;
    for (const WorkloadRun& workload : format.workloads) rates.push_back(workload.figures.*of);
    return fixed(median(std::move(rates)), 1);
  };
  for (const FormatRun& format : run.formats) {
    const EngineFormats& f = format.formats;
    table.row({std::string(format_name(f.weights)), std::string(format_name(f.kv)), f.linear_version(),
               std::string(f.linear_instruction()), rate(format, &EngineFigures::linear_gflops),
               f.attention_version(), std::string(f.attention_instruction()),
               rate(format, &EngineFigures::attention_gflops)});
  }
  table.print(out);
}

void print_memory(std::ostream& out, const ShapeRun& run) {
  for (const FormatRun& format : run.formats) {
    const auto weights = static_cast<double>(format.memory.weight_bytes);
    const auto resident = static_cast<double>(format.memory.resident_bytes);
    out << run.shape->name << ", " << run.threads << " threads, " << format_name(format.formats.weights)
        << ": weights " << fixed(weights / 1e6, 1) << " MB as float32, resident once loaded "
        << fixed(resident / 1e6, 1) << " MB (" << fixed(resident / weights, 2) << " ×)\n";
  }
  for (const PeerRun& peer : run.peers)
    if (!peer.failure.empty()) out << "  " << peer.peer.name() << ": " << peer.failure << "\n";
}

void print_notes(std::ostream& out, const BenchEngineOptions& options, const std::vector<ShapeRun>& runs) {
  for (const ShapeRun& run : runs) print_memory(out, run);
  out << options.rounds << " rounds" << (options.against.empty() ? "" : " before the peers and as many after")
      << ", formats in turn; medians, and the best round's."
      << R"(
GF: operations of the pass per CPU-second. FMA: multiply-add rate of a thread, sampled in every round.
"rank" reads 2 vocabulary rows per candidate, as a ranker does; "all logits" reads all of them, as the other
engines always do.
Ideal: linear layers at 90 % of the sampled rate of their instruction (int8: 60 %), attention at 80 % of its
own, logits at 80 % of FMA.
)";
}

json to_json(const ShapeRun& run, const FormatRun& format, const WorkloadRun& workload) {
  const EngineFigures& f = workload.figures;
  const EngineFormats& formats = format.formats;
  json entry{{"engine", "troupe"},
             {"shape", run.shape->name},
             {"workload", workload_name(workload.workload)},
             {"threads", run.threads},
             {"weights", format_name(formats.weights)},
             {"kv", format_name(formats.kv)},
             {"rounds", workload.rounds.size()},
             {"tokens", workload.tokens},
             {"operations",
              {{"linear", workload.flops.linear},
               {"attention", workload.flops.attention},
               {"logits", workload.flops.logits}}},
             {"tokens_per_cpu_second", f.tokens_per_cpu_second},
             {"best_tokens_per_cpu_second", f.best},
             {"ideal_tokens_per_cpu_second", f.ideal},
             {"gflops", f.gflops},
             {"fma_gflops", f.fma_gflops},
             {"share_of_fma", f.share_of_fma},
             {"linear_version", formats.linear_version()},
             {"linear_instruction", formats.linear_instruction()},
             {"linear_gflops", f.linear_gflops},
             {"attention_version", formats.attention_version()},
             {"attention_instruction", formats.attention_instruction()},
             {"attention_gflops", f.attention_gflops},
             {"wall_ms", f.wall_ms},
             {"cpu_ms", f.cpu_ms},
             {"weight_bytes", format.memory.weight_bytes},
             {"resident_bytes", format.memory.resident_bytes}};
  if (f.has_parts)
    for (std::size_t p = 0; p < pass_parts.size(); ++p) entry["parts"][pass_parts[p].name] = f.part_shares[p];
  if (has_ratio_to_f32(run)) entry["ratio_to_f32"] = *f.ratio_to_f32;
  if (const PeerResult* best = best_peer(run, workload.workload))
    entry.update(
        {{"ratio_to_best_peer", ratio(f, *best)}, {"ratio_at_equal_fma", ratio_at_equal_fma(f, *best)}});
  for (const std::string_view width : widths_of(run.peers))
    if (const PeerResult* best = best_peer(run, workload.workload, width))
      entry["ratio_to_best_peer_of"][std::string(width)] = ratio(f, *best);
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
  for_rows(runs, [&](const ShapeRun& run, const FormatRun& format, const WorkloadRun& workload) {
    all["runs"].push_back(to_json(run, format, workload));
  });
  for (const ShapeRun& run : runs)
    for (const PeerRun& peer : run.peers) {
      for (const PeerResult& line : peer.lines) all["runs"].push_back(to_json(options, run, peer, line));
      if (!peer.failure.empty())
        all["failures"].push_back({{"engine", peer.peer.name()},
                                   {"shape", run.shape->name},
                                   {"threads", run.threads},
                                   {"failure", peer.failure}});
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
  of_engine(
      command.add_option("--weights", weights,
                         "Number format of linear layers: f32, int8 or bf16; several separated by commas "
                         "run in turn"))
      .comma_separated()
      .one_of(words(kernels::weight_format_names))
      .default_shown();
  std::vector<std::string> stored = words(kernels::kv_format_names);
  stored.emplace_back("auto");
  of_engine(command.add_option("--kv", kv,
                               "Number format of keys and values: f32, f16, bf16 or auto, which is bf16 with "
                               "bf16 and int8 weights, else f32; several separated by commas run in turn"))
      .comma_separated()
      .one_of(stored)
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
  RaceSetup setup;
  if (!options.against.empty())
    setup.folders = find_peers(options.against, options.peers.empty()
                                                    ? std::filesystem::temp_directory_path() / "troupe-peers"
                                                    : std::filesystem::path(options.peers));
  setup.all_peers = options.all_peers;
  setup.formats = formats_of(options.weights, options.kv);
  setup.workloads = workloads;
  setup.rounds = options.rounds;
  setup.engine.page_tokens = options.page_tokens;
  std::vector<ShapeRun> runs;
  for (const std::string& shape : options.shapes)
    for (const std::uint32_t threads : options.threads) {
      setup.engine.threads = threads;
      runs.push_back(race(setup, find_shape(shape)));
    }
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  print_rates(people, runs);
  const auto has_parts = [](const ShapeRun& run) {
    return run.formats.front().workloads.front().figures.has_parts;
  };
  if (std::ranges::any_of(runs, has_parts)) print_parts(people << "\n", runs);
  print_versions(people << "\n", runs.front());
  print_notes(people << "\n", options, runs);
  if (!options.json.empty()) write_output(options.json, json_text(options, runs));
  return 0;
}

}  // namespace troupe::deploy
