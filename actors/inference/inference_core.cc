// Life of a plan in the inference worker until it is ready: it is accepted or refused, and acquires
// the blocks that it may reuse. What follows is in inference_batches.cc; the worker's part in the
// cluster is in inference_cluster.cc.
#include "actors/inference/inference_core.h"

#include <algorithm>
#include <utility>

#include "actors/inference/inference_refusals.h"
#include "kernels/base/check.h"
#include "placement/cost/plan_work.h"

namespace troupe::actors {
namespace {

// Two timers per task. Serials start above 0, so these numbers lie above the start timer and the
// heartbeat timer.
constexpr std::uint64_t deadline_timer(Serial serial) { return serial * 2; }
constexpr std::uint64_t acquire_timer(Serial serial) { return serial * 2 + 1; }

}  // namespace

InferenceCore::InferenceCore(InferenceConfig config)
    : config_(std::move(config)),
      serials_(config_.incarnation),
      times_(config_),
      tasks_(kv_worker(), config_.recent_max),
      schedule_(config_, times_),
      shards_(config_),
      batches_(config_, shards_, serials_),
      lent_pages_(config_, serials_),
      own_shards_(config_, shards_, serials_),
      models_({config_.model_version, config_.model_keep, config_.models_max, config_.heartbeat}, serials_),
      routers_(config_.routers) {
  TROUPE_CHECK(config_.slots > 0, "slots is positive");
  TROUPE_CHECK(config_.incarnation > 0, "timers count from the incarnation, and the first two are taken");
  TROUPE_CHECK(config_.heartbeat.us > 0, "heartbeat is positive");
}

void InferenceCore::step(Instant now, Event&& event, Effects& effects) {
  if (auto* received = std::get_if<Received>(&event)) {
    on_message(now, received->from, std::move(received->message), effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (auto* done = std::get_if<JobDone>(&event)) {
    on_job_done(now, std::move(*done), effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    on_peer_lost(lost->node, effects);
  }
  run_ready(now, effects);
  models_.start_next(
      now, [this](const std::string& model) { return tasks_.uses_model(model); }, effects);
}

void InferenceCore::on_message(Instant now, Address from, Message&& message, Effects& effects) {
  if (auto* execute = std::get_if<Execute>(&message))
    return on_execute(now, from, std::move(*execute), effects);
  if (auto* acquired = std::get_if<BlocksAcquired>(&message); acquired && from == kv_worker())
    return on_acquired(now, std::move(*acquired), effects);
  if (auto* lend = std::get_if<LendPages>(&message); lend && from == kv_worker())
    return lent_pages_.on_lend(*lend, effects);
  if (const auto* versions = std::get_if<Versions>(&message); versions && from.role == Role::router)
    return on_versions(now, from, *versions, effects);
  if (const auto* cancel = std::get_if<Cancel>(&message)) return on_cancel(from, *cancel, effects);
  if (const auto* drain = std::get_if<Drain>(&message)) return on_drain(now, from, *drain, effects);
  if (const auto* request = std::get_if<StatusRequest>(&message))
    return effects.send(from, status(now, request->id));
  effects.count(Metric::protocol_errors);
}

void InferenceCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer || timer == heartbeat_timer) return on_heartbeat_timer(now, effects);
  if (timer == batch_timer) return;  // the step fills the slots
  const Serial serial = timer / 2;
  if (batches_.on_timer(now, serial, effects)) return;
  Task* const task = tasks_.find(serial);
  if (!task || task->state == Task::State::running) return;
  const bool expired = now >= task->deadline;
  if (expired) return refuse(*task, too_late(), effects);
  if (timer != acquire_timer(serial)) return;
  if (task->blocks.in_flight()) {
    task->blocks.stop_awaiting();
  } else if (task->state == Task::State::acquiring) {
    // No answer from the KV-cache worker: the same result, slower (promise 7).
    tasks_.release(*task, {}, effects);
  } else {
    return;
  }
  schedule_.make_ready(now, *task);
}

void InferenceCore::on_job_done(Instant now, JobDone&& done, Effects& effects) {
  if (models_.on_job_done(now, done, effects)) return;
  if (lent_pages_.on_job_done(done, effects)) return;
  if (own_shards_.on_job_done(now, done, effects)) return;
  on_batch_done(now, std::move(done), effects);
}

// No one waits for these answers any more. Plans that run already run to their end.
void InferenceCore::on_peer_lost(NodeId node, Effects& effects) {
  routers_.lose(node);
  const auto unanswered = tasks_.waiting([&](const Task& task) { return task.from.node == node; });
  drop(unanswered, effects);
  tasks_.note_unanswered(unanswered.size());
}

// ---- a plan arrives ----

void InferenceCore::on_execute(Instant now, Address from, Execute&& execute, Effects& effects) {
  if (tasks_.knows(from, execute.id)) return;
  if (execute.model_version.empty()) execute.model_version = config_.model_version;
  if (auto refusal = validate_plan(now, execute))
    return tasks_.refuse_new(from, execute.id, std::move(*refusal), effects);
  Task& task = tasks_.accept(now, serials_.next(), from, std::move(execute));
  schedule_.add(task);
  effects.set_timer(deadline_timer(task.serial), task.deadline);
  if (!task.is_background()) begin(now, task, effects);
}

std::optional<Refusal> InferenceCore::validate_plan(Instant now, const Execute& execute) const {
  const std::string& model = execute.model_version;
  const bool background = execute.priority == Priority::background;
  const std::uint32_t queue_max = background ? config_.background_queue_max : config_.queue_max;
  if (draining_) return drains();
  if (execute.budget_us <= 0) return too_late();
  if (!models_.models().serves(now, model)) return wrong_model(model, models_.models().served(now));
  if (execute.blocks.size() != execute.plan.segments.size())
    return bad_blocks(execute.blocks.size(), execute.plan.segments.size());
  if (schedule_.waiting(background).plans >= queue_max) return queue_full(queue_max);
  if (!background && schedule_.cannot_finish(execute, batches_)) return no_time(execute.budget_us);
  return std::nullopt;
}

// Plans that run already run to their end.
void InferenceCore::on_cancel(Address from, const Cancel& cancel, Effects& effects) {
  Task* const task = tasks_.find(from, cancel.id);
  if (task && task->state != Task::State::running) refuse(*task, client_gone(), effects);
}

// ---- a plan acquires its blocks ----

void InferenceCore::begin(Instant now, Task& task, Effects& effects) {
  std::vector<BlockWant> wants = task.blocks.collect_wants(task.execute);
  if (wants.empty()) return schedule_.make_ready(now, task);
  acquire(now, task, std::move(wants), effects);
}

void InferenceCore::acquire(Instant now, Task& task, std::vector<BlockWant> wants, Effects& effects) {
  Execute& execute = task.execute;
  const std::vector<std::uint64_t> seen = placement::tokens_seen(execute.plan);
  for (std::size_t i = 0; i < wants.size(); ++i) {
    const auto seen_tokens = static_cast<double>(seen[task.blocks.segments()[i]]);
    wants[i].compute_us = static_cast<float>(times_.saved_us(wants[i].tokens, seen_tokens));
  }
  const Duration wait{std::min(execute.budget_us / 2, config_.block_wait.us)};
  const bool may_evict = !task.is_background() || execute.retention.belongs;
  AcquireBlocks ask{task.serial, wait.us, std::move(wants), std::move(execute.retention), may_evict};
  ask.early = config_.overlap && !task.is_background();
  ask.trace = execute.trace;
  effects.send(kv_worker(), std::move(ask));
  task.state = Task::State::acquiring;
  task.wait_deadline = now + wait + config_.acquire_grace;
  effects.set_timer(acquire_timer(task.serial), task.wait_deadline);
}

void InferenceCore::on_acquired(Instant now, BlocksAcquired&& acquired, Effects& effects) {
  if (own_shards_.on_acquired(now, acquired, effects) || batches_.on_acquired(now, acquired, effects)) return;
  Task* const task = tasks_.find(acquired.id);
  if (task && task->state == Task::State::acquiring && task->blocks.take_grants(std::move(acquired.grants))) {
    task->pull_us = acquired.pull_us;
    return schedule_.make_ready(now, *task);
  }
  // A duplicate, or the second of two answers.
  if (task && task->blocks.holds_grants()) return on_second_grants(now, *task, std::move(acquired));
  // Too late, or not an answer to this request.
  effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});
}

// All blocks in flight have arrived or failed. A running plan sees that by itself.
void InferenceCore::on_second_grants(Instant now, Task& task, BlocksAcquired&& acquired) {
  const bool is_final = std::ranges::none_of(acquired.grants, &BlockGrant::in_flight);
  if (!task.blocks.in_flight() || !is_final || acquired.grants.size() != task.blocks.segments().size())
    return;
  task.pull_us = acquired.pull_us;
  if (task.state != Task::State::ready) return;
  task.blocks.take_grants(std::move(acquired.grants));
  schedule_.make_ready(now, task);
}

// ---- bounds ----

std::string InferenceCore::check_bounds() const {
  if (std::string broken = tasks_.check_outcomes(); !broken.empty()) return broken;
  const std::size_t batch_max = std::max(config_.batch_requests_max, 1U);
  const std::size_t waiting_max = std::size_t{config_.queue_max} + config_.background_queue_max;
  return schedule_.check_bounds(tasks_.count_again(), waiting()) +
         excess("plans", tasks_.size(), waiting_max + (config_.slots + 1) * batch_max) +
         excess("running batches", batches_.size(), config_.slots + 1) +
         excess("remembered plans", tasks_.recent(), config_.recent_max) +
         excess("models", models_.models().size(), config_.models_max);
}

}  // namespace troupe::actors
