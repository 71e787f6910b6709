#pragma once
// `troupe-lab bench cost`: what a million rankings of a model cost in each number format. The same requests
// are sent to a node of its own for each format, in turn and in several rounds, and three things are
// compared: CPU time, memory, and the rankings themselves, request by request with those of the first
// format.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_engine.h"
#include "deploy/lab/bench/bench_rank.h"
#include "deploy/reports/ranking_quality.h"

namespace troupe::deploy {

struct CostSetup {
  std::vector<EngineFormats> formats;  // the first is the base of comparisons
  std::string policy;
  std::uint32_t rounds = 3;
};

// Runs of one format.
struct CostRuns {
  EngineFormats formats;
  std::vector<double> cpu_seconds;      // of all requests, by round
  std::vector<std::uint64_t> resident;  // bytes that the node added to the process, by round
  std::uint64_t requests = 0, pool_bytes = 0;
  std::vector<RankedAnswer> answers;  // of the first round, by question
};

// Throws std::runtime_error if a request was refused, and what run_policy throws. `ran` is called after each
// run.
std::vector<CostRuns> measure_costs(const BenchRank& bench, const Config& config, const CostSetup& setup,
                                    const std::function<void()>& ran);

struct CostRow {
  EngineFormats formats;
  double rankings_per_cpu_second = 0;  // median over the rounds
  double ratio = 1;                    // CPU time of the base over this one's: median over the rounds
  double gigabytes = 0;                // resident, of which pool_gigabytes are for keys and values
  double pool_gigabytes = 0;
  double core_hours_per_million = 0;
  // NDCG@10 of requests whose true item is known; unset: there are none. `change` is to the base, by request.
  std::optional<Mean> ndcg, change;
  Mean overlap;  // share of the base's ten best items that are among this one's

  double rate_per_gigabyte() const { return rankings_per_cpu_second / gigabytes; }
};
// `runs` must not be empty; all have the same questions.
std::vector<CostRow> cost_rows(const std::vector<CostRuns>& runs);

}  // namespace troupe::deploy
