#pragma once
// `troupe bench rank`: the same requests under several policies on a box of their own each, one table.
// Requests of an evaluation file come in a closed loop, those of a request trace at their times or in a
// closed loop. Precomputing the item blocks is offline work (BAT §5.2) and happens before the clock starts;
// tokens and times count the requests alone.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deploy/data/workload.h"
#include "deploy/lab/bench/bench_client.h"
#include "deploy/models/families.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

struct BenchRank {
  std::filesystem::path data;       // catalog
  std::vector<EvaluationRow> rows;  // users with their histories, and candidates
  std::vector<Visit> visits;
  std::size_t fresh =
      0;  // candidates of each request, of which no combination comes twice; 0: those of the rows
  std::uint64_t seed = 7;
  std::uint32_t in_flight = 4;  // requests that the client keeps under way
  // Instead of rows and visits: a request trace, or its first requests.
  std::filesystem::path trace;
  std::uint64_t requests_max = 0;  // 0: all
  double speed = 0;                // open loop, the trace's times so much shorter; 0: closed loop
  bool profile = false;            // the CPU time of the requests by room
  Families families = all_families();
};

// How much key-value memory: so that the item blocks fit and not all users do. With item bytes I (the whole
// catalog) and user bytes U (of the users that come, with their last profile, at most the model's positions
// each) the pool is I + U/4 for every policy, and no less than the least that a box takes. The item area gets
// I where a policy keeps item blocks, and users get the rest, but never more than 3U/4.
struct BenchMemory {
  std::uint64_t pool_bytes = 0, item_bytes = 0, user_bytes = 0;
  std::optional<double> split;  // the item area's share instead

  double item_share(const std::string& policy) const;
};
BenchMemory bench_memory(const BenchRank& bench, const Config& config);
// What a policy's box is configured with, but for its folder.
Config bench_config(const Config& base, const BenchMemory& memory, const std::string& policy);

// Runs one policy on a fresh box in a temporary folder. Throws as Box does.
BenchRankRun run_policy(const BenchRank& bench, const Config& config, const BenchMemory& memory,
                        const std::string& policy);

}  // namespace troupe::deploy
