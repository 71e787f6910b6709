// Cuts a user's history to what fits into the model's context beside the rest of the prompt,
// dropping the oldest events. Also selects the events that each tower (a Climber sub-model) reads.
#include "router/request/prompt.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.h"

namespace troupe::router {

std::size_t item_tokens_max(std::span<const ItemView> items) {
  std::size_t tokens = 0;
  for (const ItemView& item : items) tokens = std::max(tokens, item.tokens.size());
  return tokens;
}

std::size_t positions_without_history(const PromptForm& form, std::size_t item_positions) {
  return form.system.size() + form.user.size() + item_positions + form.instruction.size() +
         form.discriminant.size();
}

std::vector<std::uint32_t> tower_events(const Tower& tower, std::span<const std::int64_t> actions) {
  std::vector<std::uint32_t> events;
  for (auto i = static_cast<std::uint32_t>(actions.size()); i > 0 && events.size() < tower.events_max; --i)
    if (actions[i - 1] >= tower.action_min) events.push_back(i - 1);
  std::ranges::reverse(events);
  return events;
}

namespace {

// Returns how many of the newest events any tower reads.
std::size_t events_read(const PromptForm& form, const Profile& profile) {
  const auto actions = std::ranges::find(profile.features, "actions", &Feature::name);
  if (actions == profile.features.end()) return 0;
  std::size_t read = 0;
  for (const Tower& tower : form.towers)
    if (const auto events = tower_events(tower, actions->values); !events.empty())
      read = std::max(read, profile.events.size() - events.front());
  return read;
}

}  // namespace

FittedHistory fit_history(const PromptForm& form, const Profile& profile, std::size_t item_positions) {
  const std::size_t events_sum =
      std::accumulate(profile.events.begin(), profile.events.end(), std::size_t{0});
  TROUPE_CHECK(events_sum == profile.tokens.size(), "a profile's events add up to its tokens");
  const std::size_t frame = positions_without_history(form, item_positions);
  // Each tower takes some of the events and limits their number itself.
  const std::size_t capacity = !form.towers.empty()         ? SIZE_MAX
                               : form.positions_max > frame ? form.positions_max - frame
                                                            : 0;

  std::size_t events_max = profile.events.size();
  if (form.events_max > 0) events_max = std::min<std::size_t>(form.events_max, events_max);
  if (!form.towers.empty()) events_max = events_read(form, profile);

  std::size_t kept = 0, events = 0;
  while (events < events_max) {
    const std::size_t next = form.event.size() + profile.events[profile.events.size() - 1 - events];
    if (kept + next > capacity) break;
    kept += next;
    ++events;
  }
  FittedHistory fitted{.cut = static_cast<std::uint32_t>(profile.events.size() - events)};
  fitted.events.reserve(events);
  std::vector<Token> tokens;
  tokens.reserve(form.user.size() + kept);
  tokens.insert(tokens.end(), form.user.begin(), form.user.end());
  auto from = profile.tokens.end() - static_cast<std::ptrdiff_t>(kept - events * form.event.size());
  for (std::size_t i = profile.events.size() - events; i < profile.events.size(); ++i) {
    const auto end = from + profile.events[i];
    tokens.insert(tokens.end(), form.event.begin(), form.event.end());
    tokens.insert(tokens.end(), from, end);
    fitted.events.push_back(static_cast<std::uint32_t>(form.event.size()) + profile.events[i]);
    from = end;
  }
  fitted.tokens = std::move(tokens);
  fitted.features.reserve(profile.features.size());
  for (const Feature& feature : profile.features)
    fitted.features.push_back(
        {feature.name, {feature.values.end() - static_cast<std::ptrdiff_t>(events), feature.values.end()}});
  return fitted;
}

}  // namespace troupe::router
