// Declares the benchmarks of `troupe-lab bench`. `bench rank` is two benchmarks: of the engine with
// --shape, of the whole system with --data.
#include <stdexcept>

#include "deploy/lab/commands/command_bench.h"
#include "deploy/lab/commands/lab_commands.h"

namespace troupe::deploy {

void add_runs_option(Command command, std::string& json) {
  command.add_option("--json", json,
                     "Write runs[] to this file, or - for standard output (and the table to standard error)");
}

namespace {

void add_engine_command(Command bench, const char* name, const char* description,
                        std::vector<Workload> workloads) {
  auto options = std::make_shared<BenchEngineOptions>();
  Command command = bench.add_command(name, description);
  options->add_to(command);
  command.option("--shape").required();
  add_runs_option(command, options->json);
  command.runs([options, workloads] { return run_bench_engine(*options, workloads); });
}

int run_rank(const BenchRankOptions& system, BenchEngineOptions& engine) {
  if (!system.trace.empty() && system.data.empty())
    throw std::invalid_argument(
        "bench rank has --trace without --data; expected --data FOLDER with the trace's items");
  if (system.data.empty() == engine.shapes.empty())
    throw std::invalid_argument(
        std::string("bench rank has ") +
        (system.data.empty() ? "neither --shape nor --data" : "both --shape and --data") +
        "; expected --shape for the engine alone, or --data for requests to a whole node");
  if (!system.data.empty()) return run_bench_rank(system);
  engine.json = system.json;
  return run_bench_engine(engine, {Workload::rank, Workload::rank_all_logits});
}

void add_rank_command(Command bench) {
  auto system = std::make_shared<BenchRankOptions>();
  auto engine = std::make_shared<BenchEngineOptions>();
  Command command = bench.add_command(
      "rank",
      "With --data: ranking requests to a whole node under several policies; with --shape: the engine alone");
  system->add_to(command);
  engine->add_to(command);
  command.runs([system, engine] { return run_rank(*system, *engine); });
}

}  // namespace

void add_bench(Command app) {
  Command bench = app.add_command("bench", "Run benchmarks").needs_command();
  add_engine_command(bench, "engine", "Time the forward pass alone: all workloads in one table",
                     {Workload::prefill_512, Workload::prefill_2048, Workload::suffix, Workload::rank,
                      Workload::rank_all_logits});
  add_engine_command(bench, "prefill", "Time the forward pass alone: prompts of 512 and 2048 tokens",
                     {Workload::prefill_512, Workload::prefill_2048});
  add_engine_command(bench, "suffix", "Time the forward pass alone: 1000 new tokens after 1500 cached ones",
                     {Workload::suffix});
  add_rank_command(bench);
  add_accuracy(bench);
  add_generate_bench(bench);
  add_plans(bench);
  add_calibrate(bench);
  add_cost(bench);
  add_bench_serve(bench);
  add_make_model(bench);
}

}  // namespace troupe::deploy
