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
  std::vector<std::int64_t>
      times;             // of the events, in seconds; not used by the production layer, nor is `now`
  std::int64_t now = 0;  // the request's time
  std::vector<Token> candidates;
};

// Returns the plan. Segments: the history but its last event, its last event, and each candidate;
// with context tokens the history is one segment. Readouts: next-item logits of all candidates at
// the last event (not in the production layer), the first task of each candidate, and the last
// event's state.
Plan hstu_plan(const HstuConfig& config, const HstuRequest& request);

}  // namespace troupe::kernels
