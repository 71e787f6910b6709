// Remembers which profile versions clients know to be stored, and derives which versions an answer may
// have.
#include "sim/cluster/stored_profiles.h"

#include <algorithm>
#include <utility>

namespace troupe::sim {

void StoredProfiles::note_sent(SentRequest& asked, const WorldData& world) {
  const auto note_profile = [&](const auto& request) {
    const auto known = known_.find({request.tenant, request.user});
    if (known != known_.end()) asked.profile_known = known->second;
    asked.profile_since = world.profile_version(request.tenant, request.user);
  };
  if (const auto* rank = std::get_if<RankRequest>(&asked.request)) {
    note_profile(*rank);
    set_allowed_ages(*rank, asked);
  } else {
    asked.profile_stale = asked.profile_known;
  }
  if (const auto* generate = std::get_if<GenerateRequest>(&asked.request)) note_profile(*generate);
  if (const auto* put = std::get_if<PutUser>(&asked.request)) put_.emplace(put->tenant, put->user);
  if (const auto* gone = std::get_if<DeleteUser>(&asked.request)) put_.emplace(gone->tenant, gone->user);
}

std::uint64_t StoredProfiles::known_at(const UserKey& user, Instant at) const {
  const auto known = known_since_.find(user);
  if (known == known_since_.end()) return 0;
  std::uint64_t version = 0;
  for (const auto& [when, stored] : known->second)
    if (when <= at) version = stored;
  return version;
}

std::uint64_t StoredProfiles::known_of(NodeId router, const UserKey& user) const {
  const auto known = known_by_.find({user.first, user.second, router});
  return known != known_by_.end() ? known->second : 0;
}

// Sets the lowest allowed profile versions of a lenient request.
void StoredProfiles::set_allowed_ages(const RankRequest& request, SentRequest& asked) const {
  asked.profile_stale = asked.profile_known;
  if (request.features == Freshness::configured) return;
  const UserKey user{request.tenant, request.user};
  const auto before = [&](Duration time) { return known_at(user, {asked.sent.us - time.us}); };
  const std::uint64_t own = known_of(asked.router, user);
  asked.profile_known = std::max(own, before(expiry_.expiry));
  asked.profile_stale = std::max(own, before({expiry_.expiry.us + expiry_.stale_for.us}));
  const std::int64_t longest_us =
      std::max(expiry_.expiry.us + expiry_.stale_for.us, expiry_.unknown_expiry.us);
  asked.profile_since = std::max<std::uint64_t>(1, before({longest_us}));
}

void StoredProfiles::learn(const SentRequest& asked, std::uint64_t version, Instant now) {
  const auto learn = [&](const std::string& tenant, const std::string& user) {
    std::uint64_t& known = known_[{tenant, user}];
    known = std::max(known, version);
    known_since_[{tenant, user}].emplace_back(now, known);
    std::uint64_t& own = known_by_[{tenant, user, asked.router}];
    own = std::max(own, version);
  };
  if (const auto* put = std::get_if<PutUser>(&asked.request)) learn(put->tenant, put->user);
  if (const auto* gone = std::get_if<DeleteUser>(&asked.request)) learn(gone->tenant, gone->user);
  if (const auto* events = std::get_if<AppendEvents>(&asked.request)) learn(events->tenant, events->user);
}

bool StoredProfiles::note_appended(const AppendEvents& events, Instant sent, Instant now, bool are_new) {
  const UserKey user{events.tenant, events.user};
  if (events.event_ids.empty() || put_.contains(user)) return true;
  const auto [at, is_first] = appended_[user].try_emplace(events.event_ids.front(), AppendedEvent{now});
  AppendedEvent& event = at->second;
  if (!are_new) return true;
  return !std::exchange(event.was_new, true) && (is_first || sent <= event.answered);
}

}  // namespace troupe::sim
