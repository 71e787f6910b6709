#pragma once
// Judge of the outcomes of client requests: in time, correct content for the versions that it names,
// versions that were served at that time, no profile older than one known to be stored, only promised and
// justified refusals, and no answer to malformed requests (promises 1, 4, 6, 12, 15). It also counts the
// outcomes.
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/attempts.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/oracle.h"
#include "sim/cluster/sent_request.h"
#include "sim/cluster/served_versions.h"
#include "sim/cluster/stored_profiles.h"
#include "sim/cluster/tally.h"

namespace troupe::sim {

// Counts of one second of virtual time, for plots.
struct Second {
  std::uint32_t sent = 0, answered = 0, refused = 0, expired = 0;
  std::uint32_t failed = 0;       // refused or expired without a good reason
  std::vector<float> latency_ms;  // of the answered ones
};

class ClientJudge {
 public:
  ClientJudge(Cluster& cluster, Violations& violations);

  // Sets the judge of poison refusals; without it all of them are accepted.
  void set_attempts(Attempts& attempts) { attempts_ = &attempts; }

  // Counts the request and notes what its outcome will be judged by.
  void note_sent(SentRequest& asked);
  void judge(const SentRequest& asked, const Message& answer);
  // Returns when the outcome must have arrived, while its router is not paused.
  Instant due(const SentRequest& asked) const;
  void report(int promise, const SentRequest& asked, const std::string& what);

  Tally& tally() { return tally_; }
  const Tally& tally() const { return tally_; }
  const std::deque<Second>& seconds() const { return seconds_; }

 private:
  void judge_rank(const SentRequest& asked, const RankReply& reply);
  void judge_arrangement(const SentRequest& asked, const RankRequest& request, const RankReply& reply);
  void judge_generated(const SentRequest& asked, const GenerateReply& reply);
  template <class Reply>
  void judge_content(const SentRequest& asked, const Reply& reply, const std::string& fault);
  void judge_versions(const SentRequest& asked, const std::string& model, const std::string& catalog);
  void judge_refusal(const SentRequest& asked, const Refusal& refusal);
  void judge_reload(const SentRequest& asked, const Reload& reload, const Refusal* refusal);
  void judge_stored(const SentRequest& asked, std::uint64_t version);
  void judge_appended(const SentRequest& asked, const Appended& appended);
  bool is_excused(const SentRequest& asked, const Refusal& refusal);
  bool may_be_unknown(const SentRequest& asked) const;
  bool was_lost_twice(const SentRequest& asked);  // with its workers
  void add_contents(const RankRequest& request, std::uint64_t profile_since,
                    const std::function<void(const Tokens&, const std::vector<Token>&)>& add) const;
  Second& second(Instant at);

  Cluster& cluster_;
  Violations& violations_;
  std::vector<Oracle> oracles_;  // one per model
  ServedVersions served_;
  StoredProfiles stored_;
  Attempts* attempts_ = nullptr;
  std::deque<Second> seconds_;
  Tally tally_;
};

}  // namespace troupe::sim
