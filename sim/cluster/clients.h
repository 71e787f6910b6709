#pragma once
// Clients of the simulated cluster. They send requests to the routers at the scenario's rate (an open loop:
// no client waits for an answer before the next request) and change profiles and items. They judge every
// outcome immediately: exactly one per request and in time, correct content for the versions that it names,
// versions that were served at that time, no profile older than one known to be stored, only promised and
// justified refusals, and no answer to malformed requests (promises 1, 4, 6, 12, 15).
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/actor/traced_request.h"
#include "sim/cluster/attempts.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/oracle.h"
#include "sim/cluster/tally.h"

namespace troupe::sim {

// Request in flight, with what its outcome is judged by.
struct SentRequest {
  // malformed: invalid on purpose; poison: its content kills the worker process; reload: changes versions.
  // Only usual requests have to succeed.
  enum class Kind : std::uint8_t { usual, malformed, poison, reload };
  // a_while: 5 heartbeats or more since a kill; long_ago: 10 or more
  enum class SinceKill : std::uint8_t { unknown, a_while, long_ago };
  Message request;
  Kind kind = Kind::usual;
  std::uint32_t model = 0;  // index of the requested model
  NodeId router = 0;
  Instant sent;
  Duration budget;
  WorldData::Edition edition = 0;  // of the catalog when the request was sent
  // Lowest allowed profile versions. known: stored before, to the client's knowledge. For lenient requests:
  // written by this router, or stored one expiry earlier; stale: the lowest allowed version of a stale
  // profile.
  std::uint64_t profile_known = 0, profile_stale = 0;
  // Profile version when the request was sent; for lenient requests the earliest allowed one.
  std::uint64_t profile_since = 0;
  bool must_succeed = false;
  bool alone = false;                         // a reload without another one in flight at the same time
  bool overdue = false;                       // already reported; its outcome may still come
  SinceKill since_kill = SinceKill::unknown;  // if nothing else is wrong
};

// Counts of one second of virtual time, for plots.
struct Second {
  std::uint32_t sent = 0, answered = 0, refused = 0, expired = 0;
  std::uint32_t failed = 0;       // refused or expired without a good reason
  std::vector<float> latency_ms;  // of the answered ones
};

class Clients {
 public:
  Clients(Cluster& cluster, Violations& violations);

  void start(Instant from, Instant until);
  // Sends these requests at their times instead of random ones. Users and items are the world's; events
  // change the profile when the request arrives.
  void follow(TracedRequests requests);
  // Sends these requests in a closed loop: `in_flight` at a time, the next one after each outcome. Profiles
  // are those that the world generates or, for a served catalog, the trace's own.
  void run_closed_loop(TracedRequests requests, std::size_t in_flight);
  // Sends these requests at their times, relative to now, without waiting for outcomes.
  void run_open_loop(TracedRequests requests);
  void stop() {
    until_ = {};
    traced_ = nullptr;
    closed_ = false;
  }
  std::uint64_t sent() const { return tally_.requests; }
  // Settings from now on: factor of the scenario's rate; share of writes; whether every request must be
  // answered.
  void set_rate(double factor) { rate_factor_ = factor; }
  void set_writes(double share) { writes_share_ = share; }
  void set_must_succeed(bool must) { must_succeed_ = must; }
  void set_since_kill(SentRequest::SinceKill since) { since_kill_ = since; }
  void set_malformed(double share) { malformed_share_ = share; }
  // Lets one tenant send this share of the requests; the rest is drawn from all tenants.
  void set_greedy(std::uint32_t tenant, double share) { greedy_ = tenant, greedy_share_ = share; }

  // Sets the judge of poison refusals; without it all of them are accepted.
  void set_poison_judge(Attempts& attempts) { attempts_ = &attempts; }

  RankRequest draw_for(const std::string& tenant, const std::string& user);
  void ask(const Message& request);              // judged like all others
  void send_poison(const RankRequest& request);  // may be refused as poison
  void reload(const std::string& model_version, const std::string& catalog_version, double share = 1);

  // Ends the connections of a router whose process was killed.
  void cut_off(NodeId router);
  // Reports every request without an outcome whose time is over.
  void check_overdue();
  std::size_t open() const { return open_.size(); }
  std::size_t open_at(NodeId router) const;

  Tally& tally() { return tally_; }
  const std::deque<Second>& seconds() const { return seconds_; }

 private:
  // ---- clients.cc: sending requests ----
  void arrive();
  void expect_traced();
  void arrive_traced();
  void ask_traced();
  void write_profile(const TracedRequest& request);
  void ask_next();
  void expect_next(Instant since);
  void send(SentRequest asked);
  void post(NodeId router, const Message& request);
  void post_again(NodeId router, const Message& request, Duration after);
  Message draw_request();
  RankRequest draw_rank();
  void make_approximate(RankRequest& request);
  void make_lenient(RankRequest& request);
  std::uint64_t known_stored(const RankRequest& request, Instant at) const;
  std::uint64_t stored_by(NodeId router, const RankRequest& request) const;
  void set_allowed_ages(const RankRequest& request, SentRequest& asked) const;
  Message draw_write();
  Message grow_or_put(const std::string& user, std::vector<Token> tokens);
  AppendEvents draw_append(const std::string& tenant, const std::string& user, std::vector<Token> tokens);
  Message malformed(RankRequest request);
  std::string draw_tenant();
  NodeId draw_router();

  // ---- client_judge.cc: judging outcomes ----
  void on_answer(NodeId router, Message message);
  Instant due(const SentRequest& asked) const;  // while its router is not paused
  void on_unexpected(NodeId router, RequestId id);
  void judge(const SentRequest& asked, const Message& answer);
  void judge_rank(const SentRequest& asked, const RankReply& reply);
  void judge_generated(const SentRequest& asked, const GenerateReply& reply);
  template <class Reply>
  void judge_content(const SentRequest& asked, const Reply& reply, const std::string& fault);
  std::uint32_t model_of(const SentRequest& asked) const;
  void note_versions();
  static bool may_have(const SentRequest& asked, const Versions& versions, const std::string& model);
  void judge_versions(const SentRequest& asked, const std::string& model, const std::string& catalog);
  bool served_for(const SentRequest& asked, std::size_t index) const;
  void judge_refusal(const SentRequest& asked, const Refusal& refusal);
  void judge_reload(const SentRequest& asked, const Reload& reload, const Refusal* refusal);
  bool is_excused(const SentRequest& asked, const Refusal& refusal);
  bool may_be_unknown(const SentRequest& asked) const;
  bool was_lost_twice(const SentRequest& asked);  // with its workers
  void add_contents(const RankRequest& request, std::uint64_t profile_since,
                    const std::function<void(const Tokens&, const std::vector<Token>&)>& add) const;
  void learn_stored(const SentRequest& asked, const Stored& stored);
  void judge_appended(const SentRequest& asked, const Appended& appended);
  void report(int promise, const SentRequest& asked, const std::string& what);
  Second& second(Instant at);

  Cluster& cluster_;
  Violations& violations_;
  std::vector<Oracle> oracles_;  // one per model
  RandomStream random_;
  RequestId next_id_ = 1;
  std::map<RequestId, SentRequest> open_;
  std::deque<RequestId> ended_, cut_;  // recent ids, to tell a second outcome from an unknown id
  struct Posted {
    RequestId id = 0;
    NodeId router = 0;
    Instant at;
  };
  std::deque<Posted> posted_;  // messages that may still be in flight
  std::set<RequestId> stray_;  // ids in flight when their router was killed
  Attempts* attempts_ = nullptr;
  // Profile version known to be stored, by tenant and user.
  std::map<std::pair<std::string, std::string>, std::uint64_t> stored_;
  // The same versions with the times since when they are known.
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<Instant, std::uint64_t>>> stored_when_;
  std::map<std::tuple<std::string, std::string, NodeId>, std::uint64_t> stored_by_;  // the same, per router
  // First event of each answered append, of users without a later put; and the last append that was sent.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> appended_;
  std::set<std::pair<std::string, std::string>> put_;  // users put or deleted: appended events may be gone
  std::optional<AppendEvents> last_append_;
  std::uint64_t events_drawn_ = 0;
  struct ServedSince {
    Versions versions;
    Instant from;
  };
  // Per model: versions in the coordination store, with the time of each change.
  std::vector<std::vector<ServedSince>> served_;
  Instant until_;
  TracedRequests traced_;
  TracedRequest next_traced_;
  bool closed_ = false;
  double rate_factor_ = 1, writes_share_ = 0, malformed_share_ = 0;
  std::uint32_t greedy_ = 0;
  double greedy_share_ = 0;
  bool must_succeed_ = false;
  SentRequest::SinceKill since_kill_ = SentRequest::SinceKill::unknown;
  std::deque<Second> seconds_;
  Tally tally_;
};

}  // namespace troupe::sim
