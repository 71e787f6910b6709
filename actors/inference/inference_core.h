#pragma once
// The inference worker takes plans, acquires the blocks that they may reuse, and runs them on its
// device in batches. A plan that waits for blocks does not delay the others. A plan that cannot
// finish in time is refused before it costs anything. Each plan has one outcome, however often it
// arrives.
//
// A batch is formed when an executor slot is free, from ready plans, first come, first served,
// serving plans before background plans:
//   - It has at most ⌈ready / free slots⌉ plans, so that idle slots share the waiting plans (one
//     plan each while slots are idle).
//   - It has at most the work of `batch_tokens_max` newly computed tokens (BAT §5.1:
//     max-batched-tokens), but at least one plan.
//   - Its plans are of one model. A suspect (a plan that may have killed a worker) runs alone.
//     So does, once more, each plan of a batch that failed as a whole.
//   - By its work and the device's pace it ends in time for each of its plans. A plan that is late
//     even by itself is refused, unless it is the only one here: running it measures the pace anew.
//   - A plan whose blocks are in flight from other nodes runs only when none is ready, and alone.
//     It waits for them layer by layer, and may hold its slot for that. If the blocks arrive before
//     it runs, it becomes an ordinary ready plan.
//   - Background plans begin only when no serving plan is ready, at most `background_max` at a
//     time. Such a plan acquires its blocks only when it may begin, and then runs next. Otherwise
//     serving plans would wait for blocks whose writer, a background plan, waits for the serving
//     plans to end.
//
// A plan larger than a batch is not cut, and keeps its slot until it ends. While all slots run
// plans of more than three batches' work, one batch of small serving plans (each fits a batch) may
// run beside them, overtaking larger plans. So the first small plan waits for three batches at
// most, and no slot is kept idle for that. A limit below three batches would not be worth the
// smaller batches that follow from it.
//
// The models follow the cluster's versions (model_set.h). Heartbeats report load and pace to the
// routers.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/inference/model_set.h"
#include "actors/inference/refill_pace.h"
#include "placement/assignment/shards.h"
#include "placement/cost/work.h"
#include "runtime/actor/core.h"
#include "runtime/actor/recent_ids.h"
#include "runtime/actor/subscribers.h"

namespace troupe::actors {

struct InferenceConfig {
  NodeId node = 1;
  Incarnation incarnation = 1;  // first number of its requests and jobs
  // Routers of the cluster's file. These, and routers that send `Versions`, get its heartbeats.
  std::vector<NodeId> routers{1};
  Duration heartbeat{200'000};
  // Executor slots: concurrent batches. The port needs one more for a batch that runs beside them,
  // and one to change models meanwhile.
  std::uint32_t slots = 1;
  std::uint32_t background_max = 1;  // background plans that have begun and not ended
  std::uint32_t queue_max = 1'024;   // serving plans that do not run yet; more are refused
  std::uint32_t background_queue_max = 16;
  // Maximum work of a batch, in computed tokens that see no others; context adds to a token's work.
  std::uint32_t batch_tokens_max = 4'096;
  std::uint32_t batch_requests_max = 32;
  // Maximum wait for blocks that others compute; at most half of the plan's budget.
  Duration block_wait{100'000};
  Duration acquire_grace{20'000};  // additional wait for the KV-cache worker's answer
  placement::UnitCosts costs;      // of the models
  // Nominal pace of the device: how the times of operations, bytes and passes relate. The actual
  // speed is measured as a factor of it.
  placement::Pace nominal_pace{.us_per_operation = 1};
  std::string model_version;        // loaded at start
  Duration model_keep{12'000'000};  // how long a model is kept after the versions no longer name it
  std::size_t models_max = 4;       // models loaded at the same time
  std::size_t recent_max = 4'096;   // ended plans that are remembered
  bool overlap = false;             // plans may begin while their blocks are in flight
  double refill_bytes = 0;          // bytes/s for prefetching rows of embedding tables; 0 = none
  // Nodes that own shards of embedding tables spread over nodes' memory; empty = no table is
  // spread.
  std::vector<NodeId> shard_owners;
  std::uint32_t page_tokens = 1;  // tokens in a page; one shard fills a page
};

class InferenceCore final : public Core {
 public:
  explicit InferenceCore(InferenceConfig config);
  void step(Instant now, Event&& event, Effects& effects) override;

  // Returns the exceeded bounds; "" if there are none.
  std::string check_bounds() const;
  std::size_t tasks() const { return tasks_.size(); }
  std::uint64_t executed() const { return executed_; }
  std::size_t acquiring() const { return count(State::acquiring); }
  std::size_t running() const { return count(State::running); }
  std::size_t waiting() const { return tasks() - acquiring() - running(); }

 private:
  using Serial = std::uint64_t;
  static constexpr std::uint64_t heartbeat_timer = 1;
  enum class State : std::uint8_t { arrived, acquiring, ready, running };
  struct Task {
    Address from;
    // Its segments and readouts move into the batch if it runs alone; others keep them.
    Execute plan;
    State state = State::arrived;
    bool holds_grants = false;  // blocks were acquired and not yet released
    bool again = false;         // its batch failed: it runs once more, alone
    bool in_flight = false;     // ready except for blocks in flight
    Instant received, deadline, ready_at, started;
    Instant wait_deadline;                            // end of the wait for blocks
    std::int64_t pull_us = 0;                         // time until other nodes' blocks had arrived
    std::vector<BlockWant> wants;                     // one per name
    std::vector<std::optional<std::size_t>> want_of;  // per segment
    std::vector<std::size_t> writer_of;               // per want: the first segment of that name
    std::vector<BlockGrant> grants;                   // per want
    placement::Pass pass;  // given the grants; until they are known all tokens count as computed
  };
  using Queue = std::deque<Serial>;
  struct Batch {
    std::vector<Serial> tasks;
    Instant started;
    placement::Work work;
    // Table shards that the batch missed. While they are being acquired, `asked` is its key in
    // batches_; after that the key is its job.
    Serial asked = 0;
    std::vector<TableShard> missed;
    std::vector<BlockGrant> granted;  // parallel to `missed`; empty = not acquired
  };
  struct WaitingWork {  // tasks that do not run yet
    std::uint32_t plans = 0;
    placement::Pass pass;  // sum over all of them
    void add(const placement::Pass& more);
    void remove(const placement::Pass& less);
  };
  // Ratio of measured slot time to the time by the nominal pace; older batches count for less and
  // less.
  struct PaceRatio {
    double us = 0, nominal_us = 0;
    void add(double batch_us, double batch_nominal_us);
    double times() const { return nominal_us > 0 ? us / nominal_us : 0; }
  };

  // inference_core.cc: events, and a plan's way from arrival to its blocks and its end
  void on_message(Instant now, const Received& received, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_execute(Instant now, Address from, const Execute& plan, Effects& effects);
  std::optional<Refusal> validate_plan(Instant now, const Execute& plan) const;
  bool cannot_finish(const Execute& plan) const;
  // Estimates when `own` would end if it began after the work `ahead` and half of what runs now, in
  // that many slots.
  double done_us(const WaitingWork& ahead, double running_us, std::uint32_t slots,
                 const placement::Pass& own) const;
  void add_waiting(const Task& task);
  void remove_waiting(const Task& task);
  // Returns true if the pass would end before the deadline if it began now.
  bool ends_in_time(Instant now, const placement::Pass& pass, Instant deadline) const;
  double slot_us(const placement::Work& work) const;  // 0 if nothing has been computed yet
  // Work of waiting plans, in as many batches as the bounds require.
  placement::Work work_of(const WaitingWork& waiting) const;
  bool fits_batch(const placement::Pass& pass) const;
  void accept(Instant now, Address from, const Execute& plan, Effects& effects);
  static void collect_wants(Task& task);
  void weigh_wants(Task& task) const;
  void begin(Instant now, Serial serial, Task& task, Effects& effects);
  void acquire(Instant now, Serial serial, Task& task, Effects& effects);
  void on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects);
  void on_final_grants(Instant now, Serial serial, Task& task, const BlocksAcquired& acquired);
  void stop_awaiting(Instant now, Serial serial, Task& task);
  void make_ready(Instant now, Serial serial, Task& task);
  static bool is_reused(const Task& task, std::size_t segment);
  void refuse(Serial serial, Refusal refusal, Effects& effects);  // also ends the task
  static void log_hop(Serial serial, const Task& task, const char* event, std::vector<LogField> fields,
                      Effects& effects);
  void release(Serial serial, Task& task, std::vector<BlockOutcome> outcomes, Effects& effects);
  void end(Serial serial);
  std::size_t drop_waiting(const std::function<bool(const Task&)>& which, Effects& effects);

  // inference_batches.cc: from ready plans to their results
  void run_ready(Instant now, Effects& effects);
  bool begin_background(Instant now, Effects& effects);
  double batches_of(const placement::Work& work) const;
  bool may_run_beside() const;
  std::vector<Serial> take_batch(Instant now, Queue& queue, std::size_t at);
  void refuse_expired(Instant now, const Queue& queue, Effects& effects);
  void start_batch(Instant now, std::vector<Serial> batch, Effects& effects);
  BatchRequest batch_request(Instant now, Task& task, bool keep) const;
  static void check_sources(const Task& task, BatchRequest& request);
  void on_batch_done(Instant now, const JobDone& done, Effects& effects);
  void on_batch_failed(Instant now, const Batch& batch, const Refusal& refusal, Effects& effects);
  void finish(Serial serial, const BatchReply& reply, std::int64_t compute_us, Effects& effects);
  static std::vector<BlockOutcome> outcomes_of(const Task& task, const BatchReply& reply);

  // inference_rows.cc: pages for rows of embedding tables
  void on_lend(Address from, const LendPages& lend, Effects& effects);
  bool on_rows_done(const JobDone& done, Effects& effects);  // false: a different job
  void end_lend(const JobResult& result, Effects& effects);
  void count_rows(const RowTotals& now, Effects& effects);
  void report_shards(Heartbeat& beat) const;
  void refill_rows(Instant now, Effects& effects);

  // inference_rows.cc: tables that are spread over nodes' memory
  bool is_sharded() const { return owners_.has_value(); }
  NodeId owner_of(const TableShard& shard) const;
  AcquireBlocks acquire_request(Serial serial, std::span<const TableShard> shards, bool ahead) const;
  void await_shards(Instant now, Batch batch, std::vector<TableShard> away, Effects& effects);
  // false: not an answer about shards
  bool on_shards_acquired(Instant now, const BlocksAcquired& acquired, Effects& effects);
  bool on_shards_timer(Instant now, Serial serial, Effects& effects);  // false: a different timer
  void run_with_shards(Instant now, Serial asked, Effects& effects);
  void release_shards(const Batch& batch, std::vector<BlockOutcome> outcomes, Effects& effects) const;
  void advance_own_shards(Instant now, Effects& effects);
  void acquire_own_shards(Instant now, Effects& effects);
  void fill_own(Instant now, const BlocksAcquired& acquired, Effects& effects);
  // false: a different job
  bool on_shards_filled(Instant now, const JobDone& done, Effects& effects);

  // inference_cluster.cc: heartbeats, versions, drain, status
  void on_heartbeat(Instant now, Effects& effects);
  void send_heartbeat(Instant now, Effects& effects);
  void on_versions(Instant now, Address from, const Versions& versions, Effects& effects);
  void change_models(Instant now, Effects& effects);
  void on_model_changed(Instant now, const JobDone& done, Effects& effects);
  void on_drain(Instant now, Address from, const Drain& drain, Effects& effects);
  StatusReply status(Instant now, RequestId id) const;

  struct Rows {
    PagesLent answer;                 // answer to the latest LendPages
    std::vector<std::uint32_t> lent;  // pages lent by that message
    Serial job = 0, refill_job = 0;   // running jobs; 0 = none
    RowTotals counted;                // totals as of the last metrics update
    RefillPace pace;
  };

  // Fills this node's own shards before any request needs them, as far as there are free pages. The
  // walk over all shards is repeated.
  struct OwnShardWalk {
    std::vector<ShardsFilled::Table> tables;
    std::size_t table = 0;  // position of the walk
    std::uint32_t shard = 0;
    Serial asked = 0, job = 0;             // 0 = none
    std::vector<TableShard> batch_shards;  // shards being acquired or filled
    Instant wait_deadline, next_walk;
    std::uint64_t filled = 0;
  };

  static bool is_background(const Execute& plan) { return plan.priority == Priority::background; }
  static bool runs_alone(const Task& task) { return task.plan.alone || task.again || task.in_flight; }
  std::uint32_t queue_max(const Execute& plan) const;
  const std::string& model_of(const Execute& plan) const;
  std::size_t count(State state) const;
  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  InferenceConfig config_;
  Subscribers routers_;
  Serial next_serial_;  // of a task or a job
  std::map<Serial, Task> tasks_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  RecentIds recent_;                    // plans that have had their outcome
  Queue serving_, background_;          // ready tasks
  Queue in_flight_;                     // ready except for blocks in flight
  Queue background_arrived_;            // background tasks that have not begun
  std::uint32_t background_begun_ = 0;  // begun and not ended
  std::map<Serial, Batch> batches_;     // by running job; see Batch::asked
  WaitingWork waiting_[2];              // serving, background
  WaitingWork waiting_small_;           // serving tasks no larger than a batch
  std::uint32_t counted_depth_ = 0;     // length of the serving queue as of the last metrics update
  std::uint64_t heartbeats_ = 0, executed_ = 0, accepted_ = 0, answered_ = 0;
  std::uint64_t unanswered_ = 0;  // plans dropped because their router was lost while they waited
  PaceRatio slowness_;
  ModelSet models_;
  Serial model_job_ = 0;  // running change of models; 0 = none
  Rows rows_;
  std::optional<placement::Shards> owners_;
  OwnShardWalk own_shard_walk_;
  std::string logged_refusal_;  // of a change of models, as last logged
  Instant next_heartbeat_;
  bool draining_ = false;
};

}  // namespace troupe::actors
