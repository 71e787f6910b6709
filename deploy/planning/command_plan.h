#pragma once
// The parts of `troupe plan`: its options, and what they mean as a workload on a cluster.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/planning/plan_placements.h"

namespace troupe::deploy {

struct PlanOptions {
  std::string data, popularity, placement = "all", json, move_from;
  std::string nodes = "4";  // how many, or "1,2,5"
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
  std::vector<std::string> ids;  // empty: generated
  std::string source;            // of the accesses, for people
};
// Throws std::invalid_argument for options that make no sense, ImportError for files.
Planning make_planning(const PlanOptions& options);

}  // namespace troupe::deploy
