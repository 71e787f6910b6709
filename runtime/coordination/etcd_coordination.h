#pragma once
// Coordination of a cluster: etcd v3 over its JSON gateway. A key's revision is etcd's mod_revision,
// as etcd_history.h maps it, so revisions rise over the whole etcd. A change is one transaction that
// compares the revision; reads are linearizable; a LeaseId is etcd's. Clusters that share an etcd have
// different prefixes.
//
// Time: each question is answered within the limit or refused. After a refusal it is unknown
// whether a change took place or still will, and it is not sent again. Endpoints are asked in
// order, starting with the one that answered last. A read moves on when its share of the limit is
// over, a change only if nothing of it was sent. A watch reads the key twenty times a second. It
// waits for revisions, which never repeat, so it misses no change that is still in effect.
//
// Leases: etcd counts whole seconds and grants no less than 1.5 times its election timeout (2 s
// by default), so durations are rounded up, never down. etcd starts counting after the caller
// asked; a holder that counts from its question therefore never believes in an ended lease. The
// price is time without a leader: another cache-meta gets the key when etcd's longer lease has
// ended and etcd has noticed, which it checks twice a second. With a lease of 1 s that is up to 2.5
// s after the leader's last heartbeat. A restart of etcd, or a new leader among its members,
// restarts every lease.
//
// Login: with a user, a token is requested before the first question, and again when etcd
// rejects it (it keeps one for five minutes). A rejected question has changed nothing and is asked
// once more.
//
// An etcd that was wiped, restored from an old copy or replaced counts revisions anew. The history,
// one key in etcd, is read whenever etcd's revision differs from the one at which it was read last,
// and every change requires that it has not changed since. An adapter that finds another history, or
// smaller revisions than it has seen, raises the numbers above those and reports the loss. A change
// that was made before it noticed is refused as unavailable. Another etcd cluster is followed once
// the known one has been silent for a second: until then it is one that `endpoints` should not name.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/coordination/etcd_history.h"
#include "runtime/coordination/etcd_http.h"
#include "runtime/coordination/etcd_messages.h"

namespace troupe {

struct EtcdOptions {
  std::string endpoints =
      "http://127.0.0.1:2379";  // comma-separated endpoints of one etcd cluster; all https, or none
  std::string prefix = "/troupe/default/";         // prefix of this cluster's keys; ends with a slash
  std::int64_t limit_us = 2'000'000;               // per question; a watch has its wait in addition
  std::shared_ptr<const TlsClient> tls = nullptr;  // for https endpoints; null: the system's authorities
  Login login = {};                                // no user: etcd requires no login
  // Called once for each loss of data that is noticed: "emptied", "went_back" or "replaced", and why.
  // May be called by any thread that asks.
  std::function<void(const std::string& what, const std::string& why)> on_loss = {};
};

// Thread-safe; each calling thread may have a question in flight.
class EtcdCoordination final : public Coordination {
 public:
  using Answer = std::variant<CoordinationReply, Refusal>;

  // Throws std::runtime_error with what was expected if the options are invalid. Sends nothing yet.
  explicit EtcdCoordination(const EtcdOptions& options);

  // Answers a question. A WatchKey blocks the calling thread, at most for its wait plus one limit.
  // Refusals: unavailable "coordination_unavailable", and those of CoordinationState::reject_if_invalid.
  Answer ask(const Coordinate& question) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Attempt {
    Answer answer;
    Revision store = 0;       // etcd's revision; 0 = unknown
    bool understood = false;  // false: another endpoint may succeed
    bool sent = false;        // the endpoint may have executed the question
    bool no_lease = false, no_login = false;
  };

  Answer watch(const WatchKey& key);
  Answer ask_before(const Coordinate& question, Clock::time_point end);
  Answer ask_once(const Coordinate& question, Clock::time_point end, bool& guard_failed);
  Answer show_unchanged(const std::string& key, Clock::time_point end);
  Attempt send(const Coordinate& question, const std::optional<EtcdGuard>& guard, Clock::time_point end);
  Answer raise_above(Revision above, Clock::time_point end);
  Answer numbered(const Coordinate& question, CoordinationReply reply, Revision store, Clock::time_point end);
  std::optional<Refusal> read_history(Clock::time_point end);
  void begin_history(Clock::time_point end);
  Attempt try_at(EtcdEndpoint& endpoint, const Coordinate& question, const EtcdQuestion& asked,
                 Clock::time_point connected_by, Clock::time_point answered_by);
  Attempt try_once(EtcdEndpoint& endpoint, const Coordinate& question, const EtcdQuestion& asked,
                   const std::string& token, Clock::time_point connected_by, Clock::time_point answered_by);
  std::optional<Attempt> log_in(EtcdEndpoint& endpoint, std::string& token, Clock::time_point connected_by,
                                Clock::time_point answered_by);
  std::optional<std::string> note_cluster(std::uint64_t cluster);
  struct KnownHistory {
    EtcdHistory history;
    Revision key = 0;      // etcd's revision of its key; 0 = absent
    Revision read_at = 0;  // etcd's revision when it was read; 0 = never
    Revision highest = 0;  // number of the newest change that any answer showed
  };
  KnownHistory known() const;
  class HistoryTurn;
  void note_made(const KnownHistory& before, Revision store);
  std::string loss_since(const KnownHistory& before, const KnownHistory& now, std::string& why) const;
  std::size_t preferred() const;
  void prefer(std::size_t endpoint);
  Refusal unavailable(const std::string& what, const std::string& where) const;

  const std::string prefix_;
  const std::chrono::microseconds limit_;
  const Login login_;
  const std::function<void(const std::string& what, const std::string& why)> on_loss_;
  std::vector<std::unique_ptr<EtcdEndpoint>> endpoints_;
  mutable std::mutex mutex_;
  std::size_t preferred_ = 0;  // endpoint asked first; this and the members below are guarded by mutex_
  std::uint64_t cluster_ = 0;  // etcd cluster id in the last answer that was accepted
  Clock::time_point answered_at_;
  KnownHistory known_;
  std::string token_;  // result of the last login
  // One thread reads the history at a time, so that an earlier read does not replace a later one. No
  // timed_mutex: GCC 12's thread sanitizer does not know how it is locked.
  bool reads_history_ = false;
  std::condition_variable history_is_read_;
};

}  // namespace troupe
