#pragma once
// Options of `troupe-lab plan`, and the workload and cluster that they describe.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/planning/plan_item_area.h"
#include "deploy/lab/planning/plan_placements.h"
#include "runtime/config/config.h"

namespace troupe::deploy {

struct PlanOptions {
  std::string data, popularity, placement = "all", json, move_from;
  std::string nodes = "4";  // a number, or a list such as "1,2,5"
  std::optional<double> zipf, user_tokens;
  std::uint64_t items = 0, memory_bytes = 0;
  std::optional<std::uint32_t> item_tokens,
      candidates;  // candidates: of a request; unset = the trace's mean, or 100
  double alpha = 0.1, held_out = 0.3;
  std::string device = "A100-40G", shape = "qwen2-1.5b", link = "100gbps";
  // The configuration of the model to plan for; unset = a model of `shape` whose blocks are as long as items.
  std::optional<Config> served;
  std::string trace;  // requests whose candidates are counted, instead of histories
};

struct Planning {
  PlanSetup setup;
  PlanWorkload workload;
  std::vector<std::string> ids;  // item ids; empty: the items are generated
  std::string source;            // source of the accesses, for output
  std::string model, policy;     // the model's directory and its policy; "" = a shape alone
  bool repaired = false;         // the model's blocks are repaired where they are reused
  std::optional<PlanPool> pool;  // of a node that serves the model; unset for a shape alone
  std::string candidates_source = "default", user_tokens_source = "default";  // for output
};
// Throws std::invalid_argument for invalid options, ImportError for files, and what read_plan_model throws.
Planning make_planning(const PlanOptions& options);

}  // namespace troupe::deploy
