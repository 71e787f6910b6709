// Computes a user's profile after new events are appended: repeated events are skipped, late ones
// inserted by time, and the oldest dropped at the limit. It also checks the conditions of
// conditional writes.
#include "runtime/features/append_events.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/features/feature_rules.h"

namespace troupe {
namespace {

std::size_t count_of(const AppendEvents& events) {
  return std::max(events.history.size(), events.tokens.size());
}

// Returns the indices of events whose ids are not known already.
std::vector<std::size_t> new_event_indices(const StoredProfile* before, const AppendEvents& events) {
  std::unordered_set<std::string_view> known;
  if (before) known.insert(before->names.ids.begin(), before->names.ids.end());
  known.erase("");
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < count_of(events); ++i)
    if (events.event_ids.empty() || events.event_ids[i].empty() || known.insert(events.event_ids[i]).second)
      fresh.push_back(i);
  return fresh;
}

// One event with everything that belongs to it.
struct ProfileEvent {
  std::string item, id;
  std::vector<Token> tokens;
  std::vector<std::int64_t> features;  // in the order of the limits
};

std::vector<ProfileEvent> events_of(StoredProfile stored, const FeatureLimits& limits) {
  std::vector<ProfileEvent> events(stored.profile.events.size());
  auto token = stored.profile.tokens.begin();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto end = token + stored.profile.events[i];
    events[i].tokens.assign(token, end);
    token = end;
    if (!stored.names.items.empty()) events[i].item = std::move(stored.names.items[i]);
    if (!stored.names.ids.empty()) events[i].id = std::move(stored.names.ids[i]);
    for (const EventFeature& wanted : limits.event_features)
      events[i].features.push_back(
          std::ranges::find(stored.profile.features, wanted.name, &Feature::name)->values[i]);
  }
  return events;
}

StoredProfile profile_of(std::vector<ProfileEvent> events, const FeatureLimits& limits) {
  StoredProfile stored;
  for (const EventFeature& wanted : limits.event_features)
    if (!events.empty()) stored.profile.features.push_back({wanted.name, {}});
  const bool has_items =
      std::ranges::any_of(events, [](const ProfileEvent& event) { return !event.item.empty(); });
  const bool has_ids =
      std::ranges::any_of(events, [](const ProfileEvent& event) { return !event.id.empty(); });
  for (ProfileEvent& event : events) {
    stored.profile.tokens.insert(stored.profile.tokens.end(), event.tokens.begin(), event.tokens.end());
    stored.profile.events.push_back(static_cast<std::uint32_t>(event.tokens.size()));
    for (std::size_t f = 0; f < event.features.size(); ++f)
      stored.profile.features[f].values.push_back(event.features[f]);
    if (has_items) stored.names.items.push_back(std::move(event.item));
    if (has_ids) stored.names.ids.push_back(std::move(event.id));
  }
  return stored;
}

void sort_events(std::vector<ProfileEvent>& events, const FeatureLimits& limits) {
  for (std::size_t f = 0; f < limits.event_features.size(); ++f)
    if (limits.event_features[f].ascending)
      std::ranges::stable_sort(events, {}, [f](const ProfileEvent& event) { return event.features[f]; });
}

// Returns how many of the oldest events exceed the limit. What fits the served model's prompt does not
// count: another model may read more, and each request cuts its own prompt.
std::size_t events_over_limit(const std::vector<ProfileEvent>& events, const FeatureLimits& limits) {
  return events.size() - std::min<std::size_t>(events.size(), limits.history_events_max);
}

// Returns the new events as a PutUser of them alone.
PutUser only(const AppendEvents& events, const std::vector<std::size_t>& fresh) {
  PutUser put{.tenant = events.tenant, .user = events.user};
  for (const std::size_t i : fresh) {
    if (!events.history.empty()) put.history.push_back(events.history[i]);
    if (!events.tokens.empty()) put.tokens.push_back(events.tokens[i]);
    if (!events.event_ids.empty()) put.event_ids.push_back(events.event_ids[i]);
  }
  for (const Feature& feature : events.features) {
    put.features.push_back({feature.name, {}});
    for (const std::size_t i : fresh) put.features.back().values.push_back(feature.values[i]);
  }
  return put;
}

// Maps "history[1]" of the new events to the client's numbering: "events[4].item".
std::string client_field(const std::string& where, const std::vector<std::size_t>& fresh) {
  constexpr std::string_view list = "history[";
  if (!where.starts_with(list)) return where;
  return "events[" + std::to_string(fresh.at(std::stoul(where.substr(list.size())))) + "].item";
}

}  // namespace

std::variant<AppendedProfile, Refusal> append(const StoredProfile* before, const AppendEvents& events,
                                              const FeatureLimits& limits, const Catalog& catalog) {
  if (auto fault = validate_row(events, limits)) return *fault;
  const std::vector<std::size_t> fresh = new_event_indices(before, events);
  AppendedProfile grown;
  grown.counts.appended = static_cast<std::uint32_t>(fresh.size());
  grown.counts.repeated = static_cast<std::uint32_t>(count_of(events) - fresh.size());
  if (fresh.empty() && before) {
    grown.stored = *before;
    grown.counts.events = static_cast<std::uint32_t>(before->profile.events.size());
    return grown;
  }
  StoredProfile more;
  if (auto refusal = resolve(only(events, fresh), limits, catalog, more, true)) {
    refusal->where = client_field(refusal->where, fresh);
    return *refusal;
  }
  std::vector<ProfileEvent> all = before ? events_of(*before, limits) : std::vector<ProfileEvent>();
  std::ranges::move(events_of(std::move(more), limits), std::back_inserter(all));
  sort_events(all, limits);
  const std::size_t excess = events_over_limit(all, limits);
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(excess));
  grown.counts.dropped = static_cast<std::uint32_t>(excess);
  grown.counts.events = static_cast<std::uint32_t>(all.size());
  grown.stored = profile_of(std::move(all), limits);
  return grown;
}

std::optional<Refusal> reject_if_unmet(const Condition& condition, std::uint64_t present) {
  const auto refuse = [&](std::string expected) {
    return Refusal{RefusalKind::precondition_failed, "changed_meanwhile",
                   present == 0 ? "it does not exist" : "version " + std::to_string(present) + " is stored",
                   "if-match", std::move(expected)};
  };
  if (condition.absent && present != 0) {
    Refusal refusal = refuse("that it does not exist, as the request says (If-None-Match: *)");
    refusal.where = "if-none-match";
    return refusal;
  }
  if (condition.present && present == 0) return refuse("that it exists, as the request says (If-Match: *)");
  if (condition.version != 0 && condition.version != present)
    return refuse("version " + std::to_string(condition.version) + ", as the request says; read it again");
  return std::nullopt;
}

UserReply reply_of(std::string user, StoredProfile stored) {
  UserReply reply{.user = std::move(user), .version = stored.profile.version};
  const bool all_named =
      !stored.names.items.empty() && std::ranges::none_of(stored.names.items, &std::string::empty);
  if (!all_named) {
    reply.tokens = std::move(stored.profile.tokens);
    if (std::ranges::any_of(stored.profile.events, [](std::uint32_t tokens) { return tokens != 1; }))
      reply.event_tokens = std::move(stored.profile.events);
  }
  reply.history = std::move(stored.names.items);
  reply.event_ids = std::move(stored.names.ids);
  reply.features = std::move(stored.profile.features);
  return reply;
}

ItemReply reply_of(const ItemView& item, std::uint64_t version) {
  return {.item = std::string(item.id),
          .title = std::string(item.title),
          .tokens = {item.tokens.begin(), item.tokens.end()},
          .identifier = item.identifier,
          .version = version};
}

}  // namespace troupe
