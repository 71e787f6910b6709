#pragma once
// Clients of the simulated cluster. They send requests to the routers at the scenario's rate (an open loop:
// no client waits for an answer before the next request) and change profiles and items. Every outcome is
// judged immediately (`ClientJudge`). The clients check that each request has exactly one, in time.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "runtime/actor/traced_request.h"
#include "sim/cluster/client_judge.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/request_draw.h"

namespace troupe::sim {

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
  std::uint64_t sent() const { return judge_.tally().requests; }
  // Settings from now on: factor of the scenario's rate; share of writes; whether every request must be
  // answered.
  void set_rate(double factor) { rate_factor_ = factor; }
  void set_writes(double share) { draw_.set_writes(share); }
  void set_must_succeed(bool must) { must_succeed_ = must; }
  void set_since_kill(SentRequest::SinceKill since) { since_kill_ = since; }
  void set_malformed(double share) { draw_.set_malformed(share); }
  // Lets one tenant send this share of the requests; the rest is drawn from all tenants.
  void set_greedy(std::uint32_t tenant, double share) { draw_.set_greedy(tenant, share); }

  // Sets the judge of poison refusals; without it all of them are accepted.
  void set_poison_judge(Attempts& attempts) { judge_.set_attempts(attempts); }

  // Returns the code with which the open request must be refused; "" = any, or it is not open.
  std::string open_refusal(RequestId id) const;
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

  Tally& tally() { return judge_.tally(); }
  const std::deque<Second>& seconds() const { return judge_.seconds(); }

 private:
  struct Posted {
    RequestId id = 0;
    NodeId router = 0;
    Instant at;
  };

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
  std::uint32_t model_of(const SentRequest& asked) const;
  NodeId draw_router();
  void on_answer(NodeId router, Message message);
  void on_unexpected(NodeId router, RequestId id);

  Cluster& cluster_;
  Violations& violations_;
  RequestDraw draw_;
  ClientJudge judge_;
  RequestId next_id_ = 1;
  std::map<RequestId, SentRequest> open_;
  std::deque<RequestId> ended_, cut_;  // recent ids, to tell a second outcome from an unknown id
  std::deque<Posted> posted_;          // messages that may still be in flight
  std::set<RequestId> stray_;          // ids in flight when their router was killed
  Instant until_;
  TracedRequests traced_;
  TracedRequest next_traced_;
  bool closed_ = false;
  double rate_factor_ = 1;
  bool must_succeed_ = false;
  SentRequest::SinceKill since_kill_ = SentRequest::SinceKill::unknown;
};

}  // namespace troupe::sim
