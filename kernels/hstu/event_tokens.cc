// Turns plans whose tokens are events into plans with a token for each item and each action.
#include "kernels/hstu/event_tokens.h"

#include <algorithm>
#include <cstring>

namespace troupe::kernels {

PlanLimits token_limits(const HstuConfig& config) {
  PlanLimits limits{static_cast<std::int32_t>(config.vocabulary + config.context_vocabulary()),
                    static_cast<std::int32_t>(config.contexts() + config.history() + 1)};
  limits.features = config.features();
  limits.heads = config.tasks;
  limits.state = config.hidden;
  limits.moves = false;
  if (config.event_tokens() == 1) return limits;
  limits.vocabulary += static_cast<std::int32_t>(config.actions);
  limits.positions_max = static_cast<std::int32_t>(config.contexts() + 2 * (config.history() + 1));
  limits.features = 0;
  return limits;
}

std::span<const Request> EventTokens::of(std::span<const Request> events) {
  plans_.resize(events.size());
  requests_.assign(events.begin(), events.end());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Plan& plan = *events[i].plan;
    Plan& out = plans_[i];
    out = {};
    for (std::size_t s = 0; s < plan.segments.size(); ++s) {
      out.segments.push_back(tokens_of(plan.segments[s]));
      std::vector<std::byte*>& pages = requests_[i].kv[s].pages;
      const std::size_t used = layout_.pages_for(out.segments[s].tokens.size());
      for (std::size_t p = used; p < pages.size() && requests_[i].kv[s].source == Source::compute; ++p)
        std::memset(pages[p], 0, layout_.page_bytes());
      if (pages.size() > used) pages.resize(used);
    }
    out.readouts = plan.readouts;
    for (Readout& readout : out.readouts)
      readout.offset = offset_of(plan.segments[readout.segment], readout.offset);
    requests_[i].plan = &out;
  }
  return requests_;
}

Segment EventTokens::tokens_of(const Segment& events) const {
  Segment segment{.kind = events.kind, .start = position_of(events.start), .sees = events.sees};
  std::vector<Token> tokens;
  const auto first_action = static_cast<Token>(c_.vocabulary + c_.context_vocabulary());
  for (std::size_t i = 0; i < events.tokens.size(); ++i) {
    tokens.push_back(events.tokens[i]);
    const std::int64_t action = events.features[i];
    if (action >= 0) tokens.push_back(first_action + static_cast<Token>(action));
  }
  segment.tokens = std::move(tokens);
  return segment;
}

std::uint32_t EventTokens::offset_of(const Segment& events, std::uint32_t event) const {
  std::uint32_t offset = 0;
  for (std::uint32_t i = 0; i < event; ++i) offset += events.features[i] >= 0 ? 2 : 1;
  return offset;
}

std::int32_t EventTokens::position_of(std::int32_t event) const {
  const auto contexts = static_cast<std::int32_t>(c_.contexts());
  return event < contexts ? event : contexts + 2 * (event - contexts);
}

}  // namespace troupe::kernels
