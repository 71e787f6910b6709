#pragma once
// Builds an HSTU request as a plan that reads everything the model can answer about it.
#include <cstdint>
#include <vector>

#include "kernels/base/plan.h"
#include "kernels/hstu/hstu_config.h"

namespace troupe::kernels {

// A history of at least one event, oldest first, that leaves a position for candidates; and
// candidates.
struct HstuRequest {
  std::vector<Token> items;
  std::vector<std::int64_t> times;  // of the events, in seconds; read by models with a pair bias, as is `now`
  std::int64_t now = 0;             // the request's time
  std::vector<Token> candidates;
  std::vector<std::int64_t> actions = {};    // of the events; read by models with actions
  std::vector<std::uint32_t> contexts = {};  // NVIDIA: the row in each contextual table
};

// Returns the plan. Segments: the history but its last event, its last event, and, if the model has tasks,
// each candidate. A history that must be whole is one segment. Readouts: next-item logits of all candidates
// at the last event (of models without tasks, and of the research layer), the first task of each candidate
// (NVIDIA: all of them), and the last event's state.
Plan hstu_plan(const HstuConfig& config, const HstuRequest& request);

// Returns true if the plan begins with a readout of next-item logits.
bool reads_next_items(const HstuConfig& config);

}  // namespace troupe::kernels
