#pragma once
// The clients of the simulated cluster: they ask at the doors of the routers, as many times a second as the
// scenario says (an open loop: nobody waits for an answer before asking again), change profiles and items now
// and then, and judge every outcome on the spot: exactly one for each request and in time, the right content
// for the versions that it names, versions that were served at that time, nothing older than what was known
// to be stored, refusals of the promised kinds and for a reason, and never an answer to what makes no sense
// (promises 1, 4, 6, 12, 15).
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

struct Asked {
  // Malformed on purpose; a content that kills; who changes versions. Only usual ones have to succeed.
  enum class Kind : std::uint8_t { usual, malformed, poison, reload };
  enum class SinceKill : std::uint8_t { unknown, a_while, long_ago };  // 5 heartbeats or more, 10 or more
  Message request;
  Kind kind = Kind::usual;
  std::uint32_t model = 0;  // that is asked, of several
  NodeId router = 0;
  Instant sent;
  Duration budget;
  WorldData::Edition edition = 0;  // of the catalog when it was sent
  // Its client knows that this was stored before; of one that takes what was read before: by this router, or
  // an expiry before, and before what is stale may be.
  std::uint64_t profile_known = 0, profile_stale = 0;
  std::uint64_t profile_since =
      0;  // that there was when it was sent; at the earliest, of one that takes what was read before
  bool must_succeed = false;
  bool alone = false;                         // a reload: no other one was under way at the same time
  bool overdue = false;                       // and reported; its outcome may still come
  SinceKill since_kill = SinceKill::unknown;  // with nothing else wrong
};

// One second of virtual time, for plots.
struct Second {
  std::uint32_t sent = 0, answered = 0, refused = 0, expired = 0;
  std::uint32_t failed = 0;       // of the refused and expired ones, those without a good reason
  std::vector<float> latency_ms;  // of the answered ones
};

class Clients {
 public:
  Clients(Cluster& cluster, Violations& violations);

  void start(Instant from, Instant until);
  // Instead of requests by chance: these, at their times. Users and items are the world's, and events change
  // the profile as the request comes.
  void follow(TracedRequests requests);
  // The same in a closed loop: so many are under way at a time, the next one is asked when one has its
  // outcome, and profiles are those that the world makes, or where that is a served catalog the trace's own.
  void keep_asking(TracedRequests requests, std::size_t in_flight);
  // The same at their times, counted from now on, whatever became of those before.
  void ask_in_time(TracedRequests requests);
  void stop() {
    until_ = {};
    traced_ = nullptr;
    closed_ = false;
  }
  std::uint64_t sent() const { return tally_.requests; }
  // From now on: times the scenario's rate; share of writes; whether every request has to be answered.
  void set_rate(double factor) { rate_factor_ = factor; }
  void set_writes(double share) { writes_share_ = share; }
  void set_must_succeed(bool must) { must_succeed_ = must; }
  void set_since_kill(Asked::SinceKill since) { since_kill_ = since; }
  void set_malformed(double share) { malformed_share_ = share; }
  // The tenant of that number sends this share of the requests; the rest comes from all alike.
  void set_greedy(std::uint32_t tenant, double share) { greedy_ = tenant, greedy_share_ = share; }

  // Without it every refusal as poison is just.
  void judge_convictions_by(Attempts& attempts) { attempts_ = &attempts; }

  RankRequest draw_for(const std::string& tenant, const std::string& user);
  void ask(const Message& request);             // judged as all others
  void ask_poison(const RankRequest& request);  // it may be refused as such
  void reload(const std::string& model_version, const std::string& catalog_version, double share = 1);

  // Processes that were killed take the connections of their clients with them.
  void cut_off(NodeId router);
  // Every request whose time is over must have had its outcome.
  void check_overdue();
  std::size_t open() const { return open_.size(); }
  std::size_t open_at(NodeId router) const;

  Tally& tally() { return tally_; }
  const std::deque<Second>& seconds() const { return seconds_; }

 private:
  // ---- clients.cc: who asks ----
  void arrive();
  void expect_traced();
  void arrive_traced();
  void ask_traced();
  void write_profile(const TracedRequest& request);
  void ask_next();
  void expect_next(Instant since);
  void send(Asked asked);
  void post(NodeId router, const Message& request);
  void post_again(NodeId router, const Message& request, Duration after);
  Message draw_request();
  RankRequest draw_rank();
  void ask_approximately(RankRequest& request);
  void ask_leniently(RankRequest& request);
  std::uint64_t known_stored(const RankRequest& request, Instant at) const;
  std::uint64_t stored_by(NodeId router, const RankRequest& request) const;
  void note_lenience(const RankRequest& request, Asked& asked) const;
  Message draw_write();
  Message grow_or_put(const std::string& user, std::vector<Token> tokens);
  AppendEvents draw_append(const std::string& tenant, const std::string& user, std::vector<Token> tokens);
  Message malformed(RankRequest request);
  std::string draw_tenant();
  NodeId draw_router();

  // ---- client_judge.cc: what the outcomes are worth ----
  void on_answer(NodeId router, Message message);
  Instant due(const Asked& asked) const;  // while its router is not stopped
  void on_unexpected(NodeId router, RequestId id);
  void judge(const Asked& asked, const Message& answer);
  void judge_rank(const Asked& asked, const RankReply& reply);
  void judge_generated(const Asked& asked, const GenerateReply& reply);
  template <class Reply>
  void judge_content(const Asked& asked, const Reply& reply, const std::string& fault);
  std::uint32_t model_of(const Asked& asked) const;
  void note_versions();
  static bool may_have(const Asked& asked, const Versions& versions, const std::string& model);
  void judge_versions(const Asked& asked, const std::string& model, const std::string& catalog);
  bool served_for(const Asked& asked, std::size_t index) const;
  void judge_refusal(const Asked& asked, const Refusal& refusal);
  void judge_reload(const Asked& asked, const Reload& reload, const Refusal* refusal);
  bool is_excused(const Asked& asked, const Refusal& refusal);
  bool may_be_unknown(const Asked& asked) const;
  bool was_lost_twice(const Asked& asked);  // with its workers
  void add_contents(const RankRequest& request, std::uint64_t profile_since,
                    const std::function<void(const Tokens&, const std::vector<Token>&)>& add) const;
  void learn_stored(const Asked& asked, const Stored& stored);
  void judge_appended(const Asked& asked, const Appended& appended);
  void report(int promise, const Asked& asked, const std::string& what);
  Second& second(Instant at);

  Cluster& cluster_;
  Violations& violations_;
  std::vector<Oracle> oracles_;  // of each model
  SimRandom random_;
  RequestId next_id_ = 1;
  std::map<RequestId, Asked> open_;
  std::deque<RequestId> ended_, cut_;  // lately, so that a second outcome is told from one to nobody
  struct Posted {
    RequestId id = 0;
    NodeId router = 0;
    Instant at;
  };
  std::deque<Posted> posted_;  // that may still be under way
  std::set<RequestId> stray_;  // that were when their router was killed
  Attempts* attempts_ = nullptr;
  std::map<std::pair<std::string, std::string>, std::uint64_t>
      stored_;  // tenant, user → version known to be stored
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<Instant, std::uint64_t>>>
      stored_when_;                                                                  // the same, since when
  std::map<std::tuple<std::string, std::string, NodeId>, std::uint64_t> stored_by_;  // the same, of a router
  // Of users that nobody has put since: the first event of each append that was answered, and the last one
  // that was sent.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> appended_;
  std::set<std::pair<std::string, std::string>> put_;  // or deleted: what was appended may be gone
  std::optional<AppendEvents> last_append_;
  std::uint64_t events_drawn_ = 0;
  struct Served {
    Versions versions;
    Instant from;
  };
  std::vector<std::vector<Served>> served_;  // of each model: what the hard state said, since when
  Instant until_;
  TracedRequests traced_;
  TracedRequest next_traced_;
  bool closed_ = false;
  double rate_factor_ = 1, writes_share_ = 0, malformed_share_ = 0;
  std::uint32_t greedy_ = 0;
  double greedy_share_ = 0;
  bool must_succeed_ = false;
  Asked::SinceKill since_kill_ = Asked::SinceKill::unknown;
  std::deque<Second> seconds_;
  Tally tally_;
};

}  // namespace troupe::sim
