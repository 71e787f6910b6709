#pragma once
// Knowledge of the simulated clients about stored profiles: the versions that writes were answered with, and
// the events that were appended. Answers are judged by it (promises 1, 4).
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/features/expiring_profiles.h"
#include "sim/cluster/sent_request.h"

namespace troupe::sim {

class StoredProfiles {
 public:
  explicit StoredProfiles(const ExpiryOptions& expiry) : expiry_(expiry) {}

  // Sets the lowest allowed profile versions of a request that is sent now.
  void note_sent(SentRequest& asked, const WorldData& world);
  // Learns from the answer to a write that this version is stored.
  void learn(const SentRequest& asked, std::uint64_t version, Instant now);
  // Notes the answer to an append. `are_new`: it says that the events were not there before. Returns false if
  // another answer said so too, or had come when this append was sent. Of appends at the same time either may
  // be answered first. Unknown for users that were put or deleted.
  bool note_appended(const AppendEvents& events, Instant sent, Instant now, bool are_new);

 private:
  using UserKey = std::pair<std::string, std::string>;  // tenant, user

  std::uint64_t known_at(const UserKey& user, Instant at) const;
  std::uint64_t known_of(NodeId router, const UserKey& user) const;
  void set_allowed_ages(const RankRequest& request, SentRequest& asked) const;

  const ExpiryOptions expiry_;
  // Version known to be stored.
  std::map<UserKey, std::uint64_t> known_;
  // The same versions with the times since when they are known.
  std::map<UserKey, std::vector<std::pair<Instant, std::uint64_t>>> known_since_;
  std::map<std::tuple<std::string, std::string, NodeId>, std::uint64_t> known_by_;  // the same, per router
  struct AppendedEvent {
    Instant answered;      // for the first time
    bool was_new = false;  // an answer said that it was new
  };
  // First event of each answered append, of users without a later put.
  std::map<UserKey, std::map<std::string, AppendedEvent>> appended_;
  std::set<UserKey> put_;  // users put or deleted: appended events may be gone
};

}  // namespace troupe::sim
