#pragma once
// The clients of the simulated cluster: they ask at the doors of the routers, as many times a second as the
// scenario says (an open loop: nobody waits for an answer before asking again), change profiles and items now
// and then, and judge every outcome on the spot: exactly one for each request and in time, the right content
// for the versions that it names, versions that were served at that time, nothing older than what was known
// to be stored (promises 1, 4).
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/oracle.h"
#include "sim/tally.h"

namespace troupe::sim {

struct Asked {
  Message request;
  NodeId router = 0;
  Instant sent;
  Duration budget;
  WorldData::Edition edition = 0;   // of the catalog when it was sent
  std::uint64_t profile_known = 0;  // stored before it was sent
  bool must_succeed = false;
  bool strange = false;     // malformed on purpose, or poison: only needs an outcome
  bool kill_watch = false;  // sent 5 H or more after a kill with nothing else wrong
};

// One second of virtual time, for plots.
struct Second {
  std::uint32_t sent = 0, answered = 0, refused = 0, expired = 0;
  std::vector<float> latency_ms;  // of the answered ones
};

class Clients {
 public:
  Clients(Cluster& cluster, Violations& violations);

  void start(Instant from, Instant until);
  void stop() { until_ = {}; }
  std::uint64_t sent() const { return tally_.requests; }
  // From now on: times the scenario's rate; share of writes; whether every request has to be answered.
  void set_rate(double factor) { rate_factor_ = factor; }
  void set_writes(double share) { writes_share_ = share; }
  void set_must_succeed(bool must) { must_succeed_ = must; }
  void set_kill_watch(bool watch) { kill_watch_ = watch; }
  void set_malformed(double share) { malformed_share_ = share; }

  RankRequest draw_for(const std::string& tenant, const std::string& user);
  void ask(const Message& request);              // judged as all others
  void ask_strange(const RankRequest& request);  // poison: an outcome is all that is asked of it
  void reload(const std::string& model_version, const std::string& catalog_version);

  // Processes that were killed take the connections of their clients with them.
  void cut_off(NodeId router);
  // Every request whose time is over must have had its outcome.
  void check_overdue();
  std::size_t open() const { return open_.size(); }
  std::size_t open_at(NodeId router) const;

  Tally& tally() { return tally_; }
  const std::deque<Second>& seconds() const { return seconds_; }

 private:
  void arrive();
  void send(Asked asked);
  Message draw_request();
  RankRequest draw_rank();
  Message draw_write();
  Message malformed(RankRequest request);
  std::string draw_tenant();
  NodeId draw_router();
  void on_answer(NodeId router, Message message);
  void judge(const Asked& asked, const Message& answer);
  void judge_rank(const Asked& asked, const RankReply& reply);
  void note_versions();
  void judge_versions(const Asked& asked, const std::string& model, const std::string& catalog);
  void judge_refusal(const Asked& asked, const Refusal& refusal);
  void learn_stored(const Asked& asked, const Stored& stored);
  void report(int promise, const Asked& asked, const std::string& what);
  Second& second(Instant at);

  Cluster& cluster_;
  Violations& violations_;
  Oracle oracle_;
  SimRandom random_;
  RequestId next_id_ = 1;
  std::map<RequestId, Asked> open_;
  std::deque<RequestId> ended_;  // lately, so that a second outcome is told from one to nobody
  std::map<std::pair<std::string, std::string>, std::uint64_t>
      stored_;  // tenant, user → version known to be stored
  struct Served {
    Versions versions;
    Instant from;
  };
  std::vector<Served> served_;  // what the hard state said, since when
  Instant until_;
  double rate_factor_ = 1, writes_share_ = 0, malformed_share_ = 0;
  bool must_succeed_ = false, kill_watch_ = false;
  std::deque<Second> seconds_;
  Tally tally_;
};

}  // namespace troupe::sim
