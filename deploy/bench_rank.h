#pragma once
// `troupe bench rank`: the same requests under several policies on a box of their own each, closed loop, one
// table. Precomputing the item blocks is offline work (BAT §5.2) and happens before the clock starts; tokens
// and times count the requests alone.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deploy/workload.h"
#include "runtime/config.h"

namespace troupe::deploy {

struct BenchRank {
  std::filesystem::path data;       // catalog
  std::vector<EvaluationRow> rows;  // users with their histories, and candidates
  std::vector<Visit> visits;
  std::uint32_t in_flight = 4;  // requests that the client keeps under way
};

struct BenchRankRun {
  std::string policy;
  std::uint64_t requests = 0, errors = 0, users = 0;
  double seconds = 0, qps = 0, p50_ms = 0, p99_ms = 0;
  std::uint64_t tokens_total = 0, tokens_computed = 0, tokens_reused = 0;
  std::uint64_t plans_user = 0, plans_item = 0;
  double hit_rate = 0;                      // tokens_reused / tokens_total (BAT §6.2)
  double recall_at_10 = 0, ndcg_at_10 = 0;  // over each user's first visit
};

// How much key-value memory: so that the item blocks fit and not all users do. With item bytes I (the whole
// catalog) and user bytes U (of the users that the visits name, at most the model's positions each) the pool
// is I + U/4 for every policy, and no less than the least that a box takes. The item area gets I where a
// policy keeps item blocks, and users get the rest, but never more than 3U/4.
struct BenchMemory {
  std::uint64_t pool_bytes = 0, item_bytes = 0, user_bytes = 0;

  double item_share(const std::string& policy) const;
};
BenchMemory bench_memory(const BenchRank& bench, const Config& config);

// Runs one policy on a fresh box in a temporary folder. Throws as Box does.
BenchRankRun run_policy(const BenchRank& bench, const Config& config, const BenchMemory& memory,
                        const std::string& policy);

}  // namespace troupe::deploy
