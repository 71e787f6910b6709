#pragma once
// Commands under `troupe-lab bench`: their options and output. They cover the engine's profile and race
// (prefill, suffix, rank --shape, engine), the system's ranking benchmark (rank --data), make-model
// for both, accuracy, generate, plans, calibrate, and load on a running service (serve).
#include <cstdint>
#include <string>
#include <vector>

#include "deploy/commands/commands.h"
#include "deploy/lab/bench/bench_engine.h"
#include "deploy/lab/bench/bench_rank.h"

namespace troupe::deploy {

// `bench rank --data`: ranking requests of an evaluation file or a request trace, under several
// policies.
struct BenchRankOptions {
  ConfigOptions box;
  std::string data, evaluation, profile_tokens, json, memory;
  std::optional<double> item_share;
  std::vector<std::string> policies{"recompute", "user", "item", "bat"};
  std::size_t requests = 0, fresh = 0;
  double visits_per_user = 3;
  std::uint64_t seed = 7;
  std::uint32_t in_flight = 4;
  std::string trace;  // a request trace instead of an evaluation file
  double speed = 1;
  bool closed = false, profile = false;

  void add_to(Command command);
};
int run_bench_rank(const BenchRankOptions& options);
// The requests that these options describe. Throws ImportError, std::invalid_argument.
BenchRank make_rank_bench(const BenchRankOptions& options, const Config& config);

// `bench prefill|suffix|rank|engine --shape`: the forward pass alone. If `against` names a folder,
// other engines (peers) run the same workloads.
struct BenchEngineOptions {
  std::vector<std::string> shapes;
  std::vector<std::uint32_t> threads{1};
  std::vector<std::string> weights{"f32"}, kv{"auto"};
  std::string against, peers, json;
  bool all_peers = false;
  std::uint32_t rounds = 5, page_tokens = 4;

  void add_to(Command command);
};
void add_runs_option(Command command, std::string& json);  // --json of a benchmark with a table
int run_bench_engine(const BenchEngineOptions& options, const std::vector<Workload>& workloads);

void add_make_model(Command bench);
void add_accuracy(Command bench);
void add_plans(Command bench);
void add_generate_bench(Command bench);
void add_calibrate(Command bench);
void add_cost(Command bench);
void add_bench_serve(Command bench);

}  // namespace troupe::deploy
