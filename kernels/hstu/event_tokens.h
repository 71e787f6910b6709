#pragma once
// NVIDIA's layer reads each event as two tokens, its item and its action. Plans name events: a token with
// the feature action. This file turns them into plans of tokens, for the executor alone, so that blocks,
// positions and pages are counted in events everywhere else. Actions are tokens behind those of items and
// contextual features. A page holds both tokens of each of its events.
#include <span>
#include <vector>

#include "kernels/executor/executor.h"
#include "kernels/hstu/hstu_config.h"
#include "kernels/operations/kv_layout.h"

namespace troupe::kernels {

// Returns the limits of plans of tokens.
PlanLimits token_limits(const HstuConfig& config);

class EventTokens {
 public:
  // `layout`: of tokens.
  EventTokens(const HstuConfig& config, const KvLayout& layout) : c_(config), layout_(layout) {}

  // Returns the requests by tokens; valid until the next call. Readouts of an event are those of its item's
  // token. Pages that no token reaches are zeroed.
  std::span<const Request> of(std::span<const Request> events);

 private:
  Segment tokens_of(const Segment& events) const;
  std::uint32_t offset_of(const Segment& events, std::uint32_t event) const;
  std::int32_t position_of(std::int32_t event) const;

  const HstuConfig& c_;
  const KvLayout layout_;
  std::vector<Plan> plans_;
  std::vector<Request> requests_;
};

}  // namespace troupe::kernels
