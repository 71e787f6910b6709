#pragma once
// The inference worker takes plans, acquires the blocks that they may reuse, and runs them on its
// device in batches. A plan that waits for blocks does not delay the others. A plan that cannot
// finish in time is refused before it costs anything. Each plan has one outcome, however often it
// arrives.
//
// The state is in parts, each with one subject. The core passes events to them:
//   - task_table.h: the plans that are here, and their outcomes; plan_blocks.h: a plan's blocks
//   - batch_schedule.h: which plans run together and when; batch_times.h: how long that takes
//   - running_batches.h: the batches that run
//   - model_changes.h: models that are loaded and dropped
//   - lent_pages.h, own_shards.h, shard_requests.h: rows of embedding tables
// Heartbeats report load and pace to the routers.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/inference/batch_schedule.h"
#include "actors/inference/batch_times.h"
#include "actors/inference/inference_config.h"
#include "actors/inference/lent_pages.h"
#include "actors/inference/model_changes.h"
#include "actors/inference/own_shards.h"
#include "actors/inference/running_batches.h"
#include "actors/inference/shard_requests.h"
#include "actors/inference/task_table.h"
#include "runtime/actor/core.h"
#include "runtime/actor/subscribers.h"

namespace troupe::actors {

class InferenceCore final : public Core {
 public:
  explicit InferenceCore(InferenceConfig config);
  InferenceCore(const InferenceCore&) = delete;  // its parts refer to each other
  InferenceCore& operator=(const InferenceCore&) = delete;

  // Handles one event, then fills the free executor slots and starts the next change of models.
  void step(Instant now, Event&& event, Effects& effects) override;

  // Returns the exceeded bounds; "" if there are none.
  std::string check_bounds() const;
  std::size_t tasks() const { return tasks_.size(); }
  std::uint64_t executed() const { return tasks_.executed(); }
  std::size_t acquiring() const { return tasks_.count(Task::State::acquiring); }
  std::size_t running() const { return tasks_.count(Task::State::running); }
  std::size_t waiting() const { return tasks() - acquiring() - running(); }

 private:
  static constexpr std::uint64_t heartbeat_timer = 1;
  static constexpr std::uint64_t batch_timer = UINT64_MAX;  // a batch has waited for its quota

  // inference_core.cc: events, and a plan's way from arrival to its blocks
  void on_message(Instant now, Address from, Message&& message, Effects& effects);
  void on_timer(Instant now, std::uint64_t timer, Effects& effects);
  void on_job_done(Instant now, JobDone&& done, Effects& effects);
  void on_peer_lost(NodeId node, Effects& effects);
  void on_execute(Instant now, Address from, Execute&& execute, Effects& effects);
  std::optional<Refusal> validate_plan(Instant now, const Execute& execute) const;
  void begin(Instant now, Task& task, Effects& effects);
  void acquire(Instant now, Task& task, std::vector<BlockWant> wants, Effects& effects);
  void on_acquired(Instant now, BlocksAcquired&& acquired, Effects& effects);
  void on_second_grants(Instant now, Task& task, BlocksAcquired&& acquired);

  // inference_batches.cc: from ready plans to their outcomes
  void run_ready(Instant now, Effects& effects);
  void start_batch(Instant now, std::vector<Task*> batch, Effects& effects);
  void make_request(Task& task) const;
  void on_batch_done(Instant now, JobDone&& done, Effects& effects);
  void on_batch_failed(Instant now, const RunningBatch& batch, const Refusal& refusal, Effects& effects);
  void finish(Task& task, BatchReply&& reply, std::int64_t compute_us, Effects& effects);
  void on_cancel(Address from, const Cancel& cancel, Effects& effects);
  void refuse(Task& task, Refusal refusal, Effects& effects);
  void drop(std::span<Task* const> tasks, Effects& effects);

  // inference_cluster.cc: heartbeats, versions, drain, status
  void on_heartbeat_timer(Instant now, Effects& effects);
  void send_heartbeat(Instant now, Effects& effects);
  void on_versions(Instant now, Address from, const Versions& versions, Effects& effects);
  void on_drain(Instant now, Address from, const Drain& drain, Effects& effects);
  StatusReply status(Instant now, RequestId id) const;

  Address kv_worker() const { return {config_.node, Role::kv_worker}; }

  const InferenceConfig config_;
  Serials serials_;
  BatchTimes times_;
  TaskTable tasks_;
  BatchSchedule schedule_;
  ShardRequests shards_;
  RunningBatches batches_;
  Instant batch_timer_at_{INT64_MIN};  // for which the batch timer was set last
  LentPages lent_pages_;
  OwnShards own_shards_;
  ModelChanges models_;
  Subscribers routers_;
  std::uint64_t heartbeats_ = 0;
  Instant next_heartbeat_;
  bool draining_ = false;
};

}  // namespace troupe::actors
