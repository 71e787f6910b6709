#pragma once
// Options of `troupe-lab plan`, and the workload and cluster that they describe.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/planning/plan_placements.h"

namespace troupe::deploy {

struct PlanOptions {
  std::string data, popularity, placement = "all", json, move_from;
  std::string nodes = "4";  // a number, or a list such as "1,2,5"
  std::optional<double> zipf, user_tokens;
  std::uint64_t items = 0, memory_bytes = 0;
  std::optional<std::uint32_t> item_tokens;
  std::uint32_t candidates = 100;
  double alpha = 0.1, held_out = 0.3;
  std::string device = "A100-40G", shape = "qwen2-1.5b", link = "100gbps";
};

struct Planning {
  PlanSetup setup;
  PlanWorkload workload;
  std::vector<std::string> ids;  // item ids; empty: the items are generated
  std::string source;            // source of the accesses, for output
};
// Throws std::invalid_argument for invalid options, ImportError for files.
Planning make_planning(const PlanOptions& options);

}  // namespace troupe::deploy
