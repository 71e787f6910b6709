#pragma once
// `troupe-lab bench rank`: runs the same requests under several policies, each on a single node of its own.
// Requests of an evaluation file are sent in a closed loop; those of a request trace at their times or in a
// closed loop. Item blocks are precomputed before the clock starts, because that is offline work (BAT §5.2).
// Tokens and times count the requests alone.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/bench/bench_client.h"
#include "deploy/lab/bench/workload.h"
#include "deploy/models/model_families.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

struct BenchRank {
  std::filesystem::path data;       // catalog
  std::vector<EvaluationRow> rows;  // users with their histories, and candidates
  std::vector<Visit> visits;
  std::size_t fresh = 0;  // candidates drawn per request, no combination twice; 0 = the row's candidates
  std::uint64_t seed = 7;
  std::uint32_t in_flight = 4;     // requests that the client keeps in flight
  std::filesystem::path trace;     // request trace that replaces rows and visits
  std::uint64_t requests_max = 0;  // first requests of the trace to send; 0 = all
  double speed = 0;                // speed-up of the trace's times in an open loop; 0 = closed loop
  bool profile = false;            // report the CPU time of the requests by component
  bool keep_answers = false;       // report each answer and the node's memory
  ModelFamilies families = all_families();
};

// Memory for keys and values, sized so that the item blocks fit and only some of the users do. I is the
// bytes of the blocks of the whole catalog, with the item mark of the model's form. U is the bytes of the
// requesting users with their last profile, at most the model's positions each. The pool is I + U/4 for every
// policy, and at least a node's minimum. The item area gets I if requests read item blocks, which the policy
// and the arrangements of the model's form decide. Users get the remainder, but at most 3U/4.
struct BenchMemory {
  std::uint64_t pool_bytes = 0, item_bytes = 0, user_bytes = 0;
  std::optional<double> split;  // fixed share of the item area, instead of the rule above

  double item_share(bool keeps_items) const;
};
BenchMemory bench_memory(const BenchRank& bench, const Config& config);
// Returns the configuration of a policy's node, without its data folder. Reads the form of the model.
Config bench_config(const Config& base, const BenchMemory& memory, const std::string& policy,
                    const ModelFamilies& families = all_families());

// Runs one policy on a new node in a temporary folder. Throws what LocalNode throws.
BenchRankRun run_policy(const BenchRank& bench, const Config& config, const BenchMemory& memory,
                        const std::string& policy);

}  // namespace troupe::deploy
