#pragma once
// The router accepts requests from the server and brings each to its one outcome by its deadline:
// an answer or a typed refusal, whatever is lost. A ranking request passes these stages:
//   on_rank → features → (index) → plan → attempts at inference workers → on_ranked
// Other kinds skip the stages that they do not need (router/request/request.h). Every step may end
// the request; answers that come after its end find no flight and are ignored. The index only says
// what is worth reusing. If it is silent or has no leader, the request continues without it
// (promise 7). Small classes keep what the router knows of the cluster: WorkerTable, LeaderView,
// VersionKeeper, Suspects, RetryBudget.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "router/fleet/feature_watch.h"
#include "router/fleet/last_workers.h"
#include "router/fleet/leader_view.h"
#include "router/fleet/retry_budget.h"
#include "router/fleet/suspects.h"
#include "router/fleet/uses_elsewhere.h"
#include "router/fleet/versions.h"
#include "router/fleet/worker_table.h"
#include "router/flight.h"
#include "router/precompute/precompute.h"
#include "router/recent_times.h"
#include "router/request/pull_cost.h"
#include "router/request/request.h"
#include "router/tenants/fair_queue.h"
#include "router/tenants/tenants.h"
#include "runtime/actor/core.h"
#include "runtime/actor/recent_ids.h"
#include "runtime/actor/stall_detector.h"
#include "runtime/coordination/member_watch.h"

namespace troupe::router {

struct RouterConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;  // first id of its requests and jobs
  std::vector<NodeId> cache_metas{1};
  std::vector<NodeId> workers{1};  // nodes of the cluster file with an inference worker and a KV-cache worker
  ReadMembers members;             // nodes that had joined and left when this process began
  Duration members_every{0};       // period for reading `members` anew; 0 = never
  // report to workers which requests of their users ran elsewhere; needed when a worker splits its
  // areas by demand
  bool reports_uses_elsewhere = true;
  std::vector<NodeId> routers;  // other routers of the cluster file
  bool joined = false;          // this node is not in the cluster file, so it announces itself to the workers
  bool coordinate = false;      // a Coordination answers behind the port; false = the versions never change
  std::string model_version;    // initial model; "" = that of `names`
  std::string catalog_version;  // initial catalog; "" = the port's current one
  PromptForm form;
  NameContext names;
  Policy policy = router::policy("planner");  // for requests that name none
  bool shared_areas =
      false;  // treat both memory areas as one for the plans of every policy; the planner always does
  RequestLimits limits;
  // ranking, generation, completion and score requests; more are refused
  std::uint32_t in_flight_max = 256;
  std::uint32_t writes_in_flight_max = 256;  // writes and reads of stored data together; more are refused
  TenantsConfig tenants;
  Duration window{2'000};    // unanswered work allowed at a worker, per executor slot; see WorkerTableConfig
  Routing routing;           // rule that chooses a worker
  Duration quantum{10'000};  // work that a tenant of weight 1 may send per round at a worker
  Duration budget{2'000'000};  // for requests that name none
  Duration budget_max{10'000'000};
  Duration reload_budget{120'000'000};
  // minimum wait for the index; the wait is a tenth of the budget if that is more
  Duration lookup_wait_min{1'000};
  Duration heartbeat{200'000};
  std::uint32_t attempts_max = 2;  // per request
  double retry_share = 0.1;        // retries earned per admitted request
  double retry_burst = 50;         // enough for the requests that one lost worker may leave behind
  placement::UnitCosts costs;      // cost model of the served model
  placement::Pace pace{.us_per_operation = 20};  // of a worker that has not reported its own
  double pull_share = 0.25;  // time to pull a block as a fraction of the time to compute it; 1 = never pull
  // pull_share is only the initial value; requests then measure it (pull_cost.h)
  bool measures_pulls = true;
  // pace of computing blocks, for comparison with pulls; unknown = the worker's overall pace
  placement::Pace block_pace{};
  // Requests that are remembered after their outcome, so that late copies are ignored. It should
  // cover the requests of one deadline.
  std::size_t recent_max = 65'536;
  std::size_t suspects_max = 1'024;
  FeatureWatchConfig features;
  PrecomputeConfig precompute;
  std::shared_ptr<const ItemAssignment>
      places;  // item assignment; null = blocks go to any node with capacity
};

// Token counts of an executed plan.
struct TokenCount {
  std::uint32_t total = 0, computed = 0, reused = 0, blocks_reused = 0;
};

Refusal too_many_requests(std::uint32_t most);

class RouterCore final : public Core {
 public:
  explicit RouterCore(RouterConfig config);
  RouterCore(const RouterCore&) = delete;
  RouterCore& operator=(const RouterCore&) = delete;
  void step(Instant now, Event&& event, Effects& effects) override;

  // Returns which bound is exceeded, or "". For observers.
  std::string check_bounds() const;
  std::size_t in_features() const { return count(Stage::features); }
  std::size_t in_lookup() const { return count(Stage::lookup); }
  std::size_t executing() const { return count(Stage::executing); }
  std::size_t retries_in_flight() const;
  bool swapping() const { return reloading_.has_value() || versions_.swapping(); }
  bool precomputing() const { return !precompute_.is_idle(); }
  bool draining() const { return draining_; }
  Revision members_epoch() const { return members_.epoch(); }
  bool is_migration_done() const {
    return precompute_.is_migration_done();
  }  // true if every item block is at its assigned node
  const Versions& versions() const { return versions_.versions(); }
  const WorkerTable& workers() const { return workers_; }
  double pull_share() const { return pull_cost_.share(); }
  std::uint64_t admitted() const { return admitted_; }
  std::uint64_t attempts() const { return attempts_; }  // plans sent
  std::uint64_t retries() const { return retries_; }    // attempts that the retry budget paid for
  std::size_t waiting() const { return waiting_; }      // executing requests that wait in a worker's queue
  std::string find_unfairness() const;  // tenant that waits while others have more than their share, or ""

 private:
  using Serial = std::uint64_t;
  struct PendingWrite {  // kept until its job ends, even after the client was told that it is late
    RequestOrigin asked;
    Write write;
    bool answered = false;
  };
  struct PendingRead {  // read of stored data; kept until its job ends, like Writing
    RequestOrigin asked;
    bool answered = false;
  };
  struct EarlyMessage {  // message that arrived before the served versions were known
    Instant at;
    Received received;
  };
  // Suspect that waits for a worker on which this router has no other suspect.
  struct ParkedRequest {
    Serial serial = 0;
    bool free = false;
    Refusal refusal;  // of the attempt that failed before; sent if no worker is left
  };
  struct PendingReload {
    RequestOrigin asked;
    std::optional<Instant> served_since;
  };

  void on_message(Step step, const Received& received);
  bool hold_early(Step step, const Received& received);
  void take_early(Step step);
  void on_answer(Step step, const Received& received);
  void on_done(Step step, const JobDone& done);
  void on_timer(Step step, std::uint64_t timer);

  // router_requests.cc
  void on_request(Step step, Address from, const RequestKind& kind, const Message& message);
  void find_features(Step step, const Flight& flight);
  void on_features(Step step, Flight& flight, const JobResult& result);
  void plan(Step step, Flight& flight);
  std::vector<PlanOption> consider(const Request& request, const PinnedVersions& pinned);
  const BlockNames& names_of(const std::string& model_version);
  PinnedVersions pin(Instant now, const Request& request) const;
  bool is_present(const PinnedVersions& pinned) const;
  void look_up(Step step, Flight& flight, NodeId leader);
  void on_found(Step step, const BlocksFound& found);
  void choose_plan(Step step, Flight& flight);
  std::size_t plan_at(NodeId node, const Flight& flight) const;
  static void settle_plan(Flight& flight, std::size_t chosen);
  placement::Work work_at(NodeId node, const Flight& flight, std::size_t plan) const;
  void name_holders(Instant now, Flight& flight, NodeId node) const;
  Execute make_plan(Instant now, Flight& flight, NodeId node) const;
  void send_answer(Step step, const RequestOrigin& asked, Message reply) const;
  void answer(Step step, Flight& flight, NodeId node, const Executed& executed);
  void note_times(Step step, const Timings& timings, const TraceContext& trace);
  void note_pull(const Candidate& sent, NodeId node, const Executed& executed);

  // router_attempts.cc
  std::optional<WorkerTable::Option> choose_worker(Step step, const Flight& flight);
  std::optional<WorkerTable::Option> choose_among(Step step, const Flight& flight,
                                                  std::span<const NodeId> nodes,
                                                  std::span<const NodeId> tried);
  std::optional<WorkerTable::Option> choose_home(Step step, const Flight& flight,
                                                 std::span<const NodeId> tried) const;
  WorkerTable::Option option_at(NodeId node, const Flight& flight) const;
  void execute(Step step, Flight& flight);
  void send_plan(Step step, Flight& flight, const WorkerTable::Option& option);
  void note_home(Instant now, Flight& flight, NodeId node, Execute& plan);
  NodeId last_worker(const Flight& flight) const;
  bool uses_joint_rule() const { return config_.routing.by == Routing::By::joint; }
  bool retry(Step step, Flight& flight, bool free, const Refusal& refusal);
  std::vector<NodeId> nodes_with_suspects() const;
  bool is_suspect(Instant now, const Flight& flight) const;
  bool park(Step step, const Flight& flight, bool free, const Refusal& refusal);
  void unpark(Step step);
  void mark_fault(Step step, const Attempt& attempt, const Refusal& refusal);
  void on_executed(Step step, Address from, Flight& flight, const Executed& executed);
  void on_attempt_refused(Step step, Address from, const Refused& refused);
  void fail_attempt(Step step, Flight& flight, Attempt& attempt, const Refusal& refusal, bool free);
  void on_late(Step step, Flight& flight);
  void lose_attempts(Step step, std::span<const NodeId> nodes, const std::string& why);
  void lose_attempt(Step step, Flight& flight, std::span<const NodeId> nodes, const Refusal& refusal);
  bool refuse_poison(Step step, Flight& flight);

  // router_queues.cc
  std::optional<Refusal> reject_if_over_limit(TenantId tenant) const;
  bool refuse_newest_of_heaviest(Step step, TenantId tenant);
  Refusal tenant_overloaded(TenantId tenant, std::string expected) const;
  Refusal too_busy(Instant now, const Flight& flight, std::span<const NodeId> nodes,
                   const placement::Work& work) const;
  double passes_us(NodeId node, TenantId tenant) const;
  bool may_send_at_once(NodeId node) const;
  void enqueue(Step step, Flight& flight, const WorkerTable::Option& option);
  void count_waiting(Step step, NodeId node, TenantId tenant, int more);
  void end_waiting(Step step, Flight& flight);
  void leave_queue(Step step, Flight& flight);
  void serve_queues(Step step);
  void send_queued(Step step, Flight& flight);
  void reconsider(Step step, Flight& flight);
  void requeue_waiting(Step step, NodeId node);

  // router_cluster.cc
  void on_beat(Step step);
  void on_heartbeat(Step step, NodeId node, const Heartbeat& heartbeat);
  void on_peer_lost(Step step, NodeId node);
  void follow_members(Step step);
  void on_reload(Step step, Address from, const Reload& reload);
  std::optional<Refusal> reload_failure(Instant now) const;
  bool is_followed(Instant now) const;
  bool is_heard_of(Instant now) const;
  void advance_reload(Step step);
  void follow_versions(Step step, std::uint64_t epoch_before, bool own_doing);
  void advance_share(Instant now);
  void announce_to_workers(Step step) const;
  void send_to_routers(Step step, const Message& message) const;
  void on_drain(Step step, Address from, const Drain& drain);
  StatusReply status(Instant now, RequestId id) const;
  void report_workers(Instant now, StatusReply& reply) const;
  void report_recent(Instant now, StatusReply& reply) const;
  std::string not_ready_reason(Instant now) const;  // "" = ready

  // router_writes.cc
  template <class Request>
  void on_write(Step step, Address from, const Request& request);
  void on_written(Step step, Serial serial, const JobResult& result);
  void spread_news(Step step, const Write& write);
  template <class Request>
  void on_read(Step step, Address from, const Request& request);
  void on_was_read(Step step, Serial serial, const JobResult& result);
  std::optional<Refusal> reject_if_jobs_full(Instant now) const;

  // router_core.cc: admission and ends
  std::optional<Refusal> reject_if_unavailable(Instant now) const;
  std::optional<Refusal> reject_if_full(Step step, TenantId tenant);
  std::optional<Refusal> reject_if_no_worker(Instant now, Flight& flight, std::uint64_t home,
                                             const placement::Work& work) const;
  bool is_copy(Address from, RequestId id) const;
  // `work`: work of the plan, as far as known.
  Flight* admit(Step step, const RequestOrigin& asked, TenantId tenant, PinnedVersions pinned,
                std::uint64_t home, const placement::Work& work, const std::optional<Refusal>& fault);
  Duration budget_of(std::int64_t budget_us) const;
  void settle(const RequestOrigin& asked);  // records that the request has its outcome
  void refuse(Step step, const RequestOrigin& asked, Refusal refusal);
  static void log_hop(Step step, const Flight& flight, const char* event, std::vector<LogField> fields);
  static void log_trouble(Step step, const Flight& flight, const char* event, const Attempt& attempt,
                          const Refusal& why);
  void refuse_flight(Step step, Flight& flight, const Refusal& refusal);  // also ends it
  void close(Step step, Flight& flight);                                  // called after its answer was sent
  void drop(Step step, Flight& flight);
  Flight* find(Serial serial);
  void count_in_flight(Step step) const;
  std::size_t count(Stage stage) const;
  static TokenCount count_tokens(Step step, const Candidate& sent, const Executed& executed);

  RouterConfig config_;
  std::uint64_t next_id_;
  StallDetector stall_detector_;
  MemberWatch members_;
  Instant began_;
  WorkerTable workers_;
  LastWorkers last_;  // used only by Algorithm 1
  UsesElsewhere elsewhere_;
  LeaderView leader_;
  FeatureWatch features_;
  VersionKeeper versions_;
  std::vector<std::unique_ptr<const BlockNames>> names_;  // of the most recently requested models
  std::string shared_;  // next model of a share of users, once every worker had it
  PullCost pull_cost_;
  Suspects suspects_;
  RetryBudget retry_budget_;
  Precompute precompute_;
  std::deque<EarlyMessage> early_;
  std::map<Serial, Flight> flights_;
  Tenants tenants_;
  std::map<NodeId, FairQueue> queues_;  // per worker: requests that wait to be sent to it
  std::size_t waiting_ = 0;             // in all queues
  double slots_ = 1;                    // executor slots of all live workers at the last beat
  std::deque<ParkedRequest> parked_;    // each flight at most once
  bool may_unpark_ = false;             // something has changed that may free a worker for them
  std::map<Serial, PendingWrite> writings_;
  std::map<Serial, PendingRead> readings_;
  std::optional<PendingReload> reloading_;
  std::set<std::pair<Address, RequestId>> open_;  // requests without an outcome yet
  RecentIds recent_;                              // requests with an outcome
  std::map<std::uint64_t, Serial> feature_jobs_;  // running jobs, including those whose request has ended
  bool draining_ = false;
  std::string catalog_version_;  // as last seen
  RecentTimes times_;
  PlanTotals tally_;
  std::uint64_t admitted_ = 0, attempts_ = 0, retries_ = 0, answered_ = 0, refused_ = 0;
};

inline constexpr std::uint64_t beat_timer = 2;  // start_timer and precompute_timer have smaller numbers
// Each serial reserves four timer ids.
enum class TimerKind : std::uint64_t { deadline, lookup, late };
constexpr std::uint64_t timer_of(std::uint64_t serial, TimerKind kind) {
  return serial * 4 + static_cast<std::uint64_t>(kind);
}

}  // namespace troupe::router
