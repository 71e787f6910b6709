// Ranks the same requests on a node in each number format and compares CPU time, memory and rankings.
#include "deploy/lab/bench/bench_cost.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "deploy/lab/bench/engine_race.h"
#include "kernels/base/check.h"

namespace troupe::deploy {

namespace {

Config config_with(const Config& base, const EngineFormats& formats) {
  Config config = base;
  config.set("model.weights", std::string(format_name(formats.weights)));
  config.set("pool.kv_format", std::string(format_name(formats.kv)));
  return config;
}

double gain(const RankedAnswer& answer) { return ndcg({0, answer.rank}, 10); }

// Share of the best items of `base` that `other` has among its best.
double overlap_of(const RankedAnswer& base, const RankedAnswer& other) {
  if (base.best.empty()) return 1;
  const auto there = std::ranges::count_if(base.best, [&](const std::string& item) {
    return std::ranges::find(other.best, item) != other.best.end();
  });
  return static_cast<double>(there) / static_cast<double>(base.best.size());
}

void compare_answers(const CostRuns& base, const CostRuns& other, CostRow& row) {
  TROUPE_CHECK(base.answers.size() == other.answers.size(), "bench cost: expected the same questions");
  std::vector<double> gains, changes, overlaps;
  for (std::size_t i = 0; i < base.answers.size(); ++i) {
    overlaps.push_back(overlap_of(base.answers[i], other.answers[i]));
    if (!base.answers[i].judged) continue;
    gains.push_back(gain(other.answers[i]));
    changes.push_back(gains.back() - gain(base.answers[i]));
  }
  row.overlap = mean_of(overlaps);
  if (gains.empty()) return;
  row.ndcg = mean_of(gains);
  row.change = mean_of(changes);
}

void run_once(const BenchRank& bench, const Config& config, const CostSetup& setup, CostRuns& runs) {
  const BenchMemory memory = bench_memory(bench, config);
  BenchRankRun run = run_policy(bench, config, memory, setup.policy);
  if (run.errors > 0)
    throw std::runtime_error(std::to_string(run.errors) + " of " + std::to_string(run.requests) +
                             " requests were refused with " + std::string(format_name(runs.formats.weights)) +
                             " weights; expected an answer to each");
  runs.cpu_seconds.push_back(run.cpu_seconds);
  runs.resident.push_back(run.resident_bytes);
  runs.requests = run.requests;
  runs.pool_bytes = memory.pool_bytes;
  if (runs.answers.empty()) runs.answers = std::move(run.answers);
}

}  // namespace

std::vector<CostRuns> measure_costs(const BenchRank& bench, const Config& config, const CostSetup& setup,
                                    const std::function<void()>& ran) {
  BenchRank keeping = bench;
  keeping.keep_answers = true;
  std::vector<CostRuns> runs;
  for (const EngineFormats& formats : setup.formats) runs.push_back({formats, {}, {}, 0, 0, {}});
  for (std::uint32_t round = 0; round < setup.rounds; ++round)
    for (const std::size_t f : turn_of(round, runs.size())) {
      run_once(keeping, config_with(config, runs[f].formats), setup, runs[f]);
      ran();
    }
  return runs;
}

std::vector<CostRow> cost_rows(const std::vector<CostRuns>& runs) {
  const CostRuns& base = runs.front();
  std::vector<CostRow> rows;
  for (const CostRuns& run : runs) {
    CostRow row{.formats = run.formats};
    const double seconds = median(run.cpu_seconds) / static_cast<double>(run.requests);
    row.rankings_per_cpu_second = 1 / seconds;
    row.core_hours_per_million = 1e6 * seconds / 3600;
    std::vector<double> ratios, resident;
    for (std::size_t r = 0; r < run.cpu_seconds.size(); ++r)
      ratios.push_back(base.cpu_seconds[r] / run.cpu_seconds[r]);
    for (const std::uint64_t bytes : run.resident) resident.push_back(static_cast<double>(bytes));
    row.ratio = median(std::move(ratios));
    row.gigabytes = median(std::move(resident)) / 1e9;
    row.pool_gigabytes = static_cast<double>(run.pool_bytes) / 1e9;
    compare_answers(base, run, row);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace troupe::deploy
