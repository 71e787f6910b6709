#pragma once
// The Coordination of a cluster: etcd v3 over its JSON gateway. A key's revision is etcd's mod_revision, so
// revisions rise over the whole etcd; a change is one transaction that compares it; reads are linearizable; a
// LeaseId is etcd's. What clusters share is a prefix apart.
//
// Time. Each question is answered within the limit, else refused; then nobody knows whether a change took
// place, or will yet, and it is not sent a second time. Endpoints are asked in turn, beginning with the one
// that answered last: a read goes on to the next one when its share of the limit is over, a change only if
// nothing of it was sent. A watch looks at the key twenty times a second: what it waits for are revisions,
// which never repeat, so no change of the key that still stands is missed.
//
// Leases. etcd counts whole seconds and grants no less than one and a half of its election timeouts (2 s as
// etcd is shipped): what is asked for is rounded up, never down. It counts from when it heard the question,
// which is after whoever asked began to count, so a holder that counts what it asked for from the moment when
// it asked never believes in a lease that has ended. The price is the time without a leader: another
// cache-meta gets the key when etcd's longer lease has ended and etcd has noticed, which it looks for twice a
// second, so up to 2.5 s after the leader's last heartbeat where 1 s was asked for. A restart of etcd, or a
// new leader among its members, begins every lease anew.
//
// Login. With a user, a token is asked for before the first question, and again when etcd says that it does
// not know it (it keeps one for five minutes): a question that is answered so has changed nothing, and is
// asked once more.
//
// An etcd that was wiped, restored from an old copy, or is another one than before could give out revisions
// twice. Its answers are refused.
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/coordination/etcd_http.h"
#include "runtime/coordination/etcd_messages.h"

namespace troupe {

struct EtcdOptions {
  std::string endpoints =
      "http://127.0.0.1:2379";  // with commas between them; of one etcd cluster; all https, or none
  std::string prefix = "/troupe/default/";  // of this cluster's keys; ends with a slash
  std::int64_t limit_us = 2'000'000;        // for each question; a watch has its wait on top
  std::shared_ptr<const TlsClient> tls =
      nullptr;       // of https endpoints, as all are then; null: the system's authorities
  Login login = {};  // no user: etcd asks for none
};

// Thread-safe; as many questions are on their way as threads ask.
class EtcdCoordination final : public Coordination {
 public:
  using Answer = std::variant<Coordinated, Refusal>;

  // Throws std::runtime_error that says what was expected, if the options make no sense. Asks nothing yet.
  explicit EtcdCoordination(const EtcdOptions& options);

  // A WatchKey blocks the calling thread, until its wait and one limit are over at most. Refusals: 503
  // "coordination_unavailable", and those of CoordinationState::fault_of.
  Answer ask(const Coordinate& question) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Tried {
    Answer answer;
    bool understood = false;  // else the next endpoint may do better
    bool sent = false;        // that endpoint may have done what was asked
    bool no_lease = false, no_login = false;
  };

  Answer watch(const WatchKey& key);
  Answer ask_by(const Coordinate& question, Clock::time_point end);
  Answer fail_by(const std::string& key, Clock::time_point end);
  Tried try_at(EtcdEndpoint& endpoint, const Coordinate& question, const EtcdQuestion& asked,
               Clock::time_point connected_by, Clock::time_point answered_by);
  Tried try_once(EtcdEndpoint& endpoint, const Coordinate& question, const EtcdQuestion& asked,
                 const std::string& token, Clock::time_point connected_by, Clock::time_point answered_by);
  std::optional<Tried> log_in(EtcdEndpoint& endpoint, std::string& token, Clock::time_point connected_by,
                              Clock::time_point answered_by);
  std::optional<std::string> note(const Coordinate& question, const EtcdAnswer& answer, Revision before);
  Revision highest() const;
  std::size_t preferred() const;
  void prefer(std::size_t endpoint);
  Refusal unavailable(const std::string& what, const std::string& where) const;

  const std::string prefix_;
  const std::chrono::microseconds limit_;
  const Login login_;
  std::vector<std::unique_ptr<EtcdEndpoint>> endpoints_;
  mutable std::mutex mutex_;
  std::size_t preferred_ = 0;  // is asked first; this and what follows is guarded by mutex_
  std::uint64_t cluster_ = 0;  // of the first answer
  Revision highest_ = 0;       // of the store, in all answers
  std::string token_;          // of the last login
};

}  // namespace troupe
