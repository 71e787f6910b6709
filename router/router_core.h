#pragma once
// The router accepts requests from the server and brings each to its one outcome by its deadline:
// an answer or a typed refusal, whatever is lost. An admitted request is a flight:
//   on_request → features → (index) → plan → attempts at inference workers → answer
// Every step may end the flight; messages that come after its end find no flight and are ignored.
//
// Each part of the router owns its state and decides its own matters:
//   the cluster      MemberWatch, WorkerTable, LeaderView, VersionKeeper, ModelShare, Availability
//   flights          Planning (to the plan), Attempts (to the worker's result), Answers (to the
//                    reply); Flights ends them, Outcomes gives each request its one outcome
//   other requests   StoredDataRequests, Reloads, Replays; EarlyRequests while the versions are unknown
//                    or no worker is usable
//   background       Precompute, AnswerVerifier
// RouterCore wires the parts and says which part hears of which event. `step` is that list.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "router/early_requests.h"
#include "router/fleet/availability.h"
#include "router/fleet/leader_view.h"
#include "router/fleet/lost_workers.h"
#include "router/fleet/model_share.h"
#include "router/fleet/versions.h"
#include "router/fleet/worker_table.h"
#include "router/flights/answers.h"
#include "router/flights/attempts.h"
#include "router/flights/flights.h"
#include "router/flights/outcomes.h"
#include "router/flights/planning.h"
#include "router/flights/timers.h"
#include "router/flights/worker_queues.h"
#include "router/precompute/precompute.h"
#include "router/recompute/answer_verifier.h"
#include "router/recompute/replays.h"
#include "router/reloads.h"
#include "router/request/model_names.h"
#include "router/request/pull_cost.h"
#include "router/router_config.h"
#include "router/stored_data_requests.h"
#include "router/tenants/tenants.h"
#include "runtime/actor/core.h"
#include "runtime/actor/stall_detector.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::router {

class RouterCore final : public Core {
 public:
  explicit RouterCore(RouterConfig config);
  RouterCore(const RouterCore&) = delete;
  RouterCore& operator=(const RouterCore&) = delete;
  void step(Instant now, Event&& event, Effects& effects) override;

  // ---- for observers ----
  std::string check_bounds() const;     // which bound is exceeded, or ""
  std::string find_unfairness() const;  // tenant that waits while others have more than their share, or ""
  std::size_t in_features() const { return flights_.count(Stage::features); }
  std::size_t in_lookup() const { return flights_.count(Stage::lookup); }
  std::size_t executing() const { return flights_.count(Stage::executing); }
  std::size_t retries_in_flight() const { return flights_.retried(); }
  bool swapping() const { return reloads_.in_progress() || versions_.swapping(); }
  bool precomputing() const { return !precompute_.is_idle(); }
  bool verifying() const { return !verifier_.is_idle(); }
  bool draining() const { return availability_.draining(); }
  Revision members_epoch() const { return members_.epoch(); }
  // true if every item block is at its assigned node
  bool is_migration_done() const { return precompute_.is_migration_done(); }
  const Versions& versions() const { return versions_.versions(); }
  const WorkerTable& workers() const { return workers_; }
  double pull_share() const { return pull_cost_.share(); }
  std::uint64_t admitted() const { return flights_.admitted(); }
  std::uint64_t attempts() const { return attempts_.sent(); }    // plans sent
  std::uint64_t retries() const { return attempts_.retries(); }  // attempts that the retry budget paid for
  std::size_t waiting() const { return queues_.waiting(); }      // flights that wait in a worker's queue

 private:
  void on_message(Step step, Address from, Message&& message);
  void on_cancel(Step step, Address from, RequestId id);
  void on_news(Step step, Address from, Message&& message);
  void on_timer(Step step, std::uint64_t timer);
  void on_flight_timer(Step step, Flight& flight, std::uint64_t timer);
  void on_done(Step step, JobDone&& done);
  void on_peer_lost(Step step, NodeId node);
  void on_start(Step step);
  void on_beat(Step step);
  void on_heartbeat(Step step, NodeId node, const Heartbeat& heartbeat);
  void on_members(Step step);
  void on_versions(Step step, std::uint64_t epoch_before, bool own_doing);
  void forgive_stall(Step step);
  void lose_workers(Step step, std::span<const NodeId> nodes, const char* why, bool silent = false);
  void announce_to_workers(Step step) const;
  OtherRouters other_routers() const { return {members_, config_.node}; }
  StatusReply status(Instant now, RequestId id) const;

  RouterConfig config_;
  std::uint64_t next_id_;
  StallDetector stall_detector_;
  MemberWatch members_;
  WorkerTable workers_;
  LostWorkers lost_workers_;
  LeaderView leader_;
  VersionKeeper versions_;
  ModelShare share_;
  Availability availability_;
  PullCost pull_cost_;
  ModelNames names_;
  Precompute precompute_;
  Tenants tenants_;
  WorkerQueues queues_;
  Outcomes outcomes_;
  Flights flights_;
  Attempts attempts_;
  AnswerVerifier verifier_;
  Replays replays_;
  Answers answers_;
  Planning planning_;
  StoredDataRequests stored_data_;
  Reloads reloads_;
  EarlyRequests early_;
};

}  // namespace troupe::router
