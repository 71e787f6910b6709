#include "actors/inference/inference_core.h"

#include <algorithm>

#include "kernels/check.h"

namespace troupe::actors {
namespace {

// Two timers per task.
constexpr std::uint64_t deadline_timer(std::uint64_t serial) { return serial * 2; }
constexpr std::uint64_t acquire_timer(std::uint64_t serial) { return serial * 2 + 1; }

Refusal too_late() {
  return {504, "deadline_exceeded", "the plan's time was over before it could run", "inference worker",
          "a larger budget or less load"};
}

Refusal lease_ended() {
  return {503, "lease_ended", "the batch took longer than its blocks were held for it", "inference worker",
          "smaller batches"};
}

Refusal full(std::uint32_t queue_max) {
  return {503, "overloaded", std::to_string(queue_max) + " plans are waiting", "inference worker",
          "a retry after a pause"};
}

}  // namespace

InferenceCore::InferenceCore(InferenceConfig config) : config_(config), next_serial_(config.first_id) {
  TROUPE_CHECK(config.lanes > 0, "an inference worker has a lane");
  TROUPE_CHECK(config.first_id > 0, "timers count from first_id, and timer 0 is the start");
}

void InferenceCore::step(Instant now, const Event& event, Effects& effects) {
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, *received, effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (const auto* done = std::get_if<Done>(&event)) {
    on_batch_done(now, *done, effects);
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    lose(lost->node, effects);
  }
  run_ready(now, effects);
}

void InferenceCore::on_message(Instant now, const Received& received, Effects& effects) {
  if (const auto* plan = std::get_if<Execute>(&received.message)) {
    on_execute(now, received.from, *plan, effects);
  } else if (const auto* acquired = std::get_if<BlocksAcquired>(&received.message)) {
    on_acquired(now, received.from, *acquired, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&received.message)) {
    effects.send(received.from, status(request->id));
  } else {
    effects.count(Metric::protocol_errors);
  }
}

// ---- a plan arrives and gets its blocks ----

void InferenceCore::on_execute(Instant now, Address from, const Execute& plan, Effects& effects) {
  if (serials_.count({from, plan.id}) > 0) return;
  const bool background = plan.priority == Priority::background;
  const std::uint32_t queue_max = background ? config_.background_queue_max : config_.queue_max;
  if (plan.budget_us <= 0) return effects.send(from, Refused{plan.id, too_late()});
  if (waiting(plan.priority) >= queue_max) return effects.send(from, Refused{plan.id, full(queue_max)});

  const Serial serial = next_serial_++;
  serials_[{from, plan.id}] = serial;
  Task& task = tasks_[serial];
  task.from = from;
  task.plan = plan;
  task.received = now;
  task.deadline = now + Duration{plan.budget_us};
  collect_wants(task);
  ++waiting(plan.priority);
  effects.set_timer(deadline_timer(serial), task.deadline);
  if (background) return background_arrived_.push_back(serial);
  begin(now, serial, task, effects);
}

void InferenceCore::begin(Instant now, Serial serial, Task& task, Effects& effects) {
  background_begun_ += task.plan.priority == Priority::background;
  if (task.wants.empty()) return make_ready(now, serial, task);
  acquire(now, serial, task, effects);
}

// Candidates with the same tokens are the same block: it is wanted once.
void InferenceCore::collect_wants(Task& task) {
  std::map<BlockName, std::size_t> wanted;
  for (std::size_t i = 0; i < task.plan.segments.size(); ++i) {
    const PlannedSegment& segment = task.plan.segments[i];
    task.want_of.emplace_back();
    if (!segment.block) continue;
    const auto [at, fresh] = wanted.emplace(*segment.block, task.wants.size());
    task.want_of[i] = at->second;
    if (!fresh) continue;
    task.wants.push_back(
        {*segment.block, segment.kind, segment.owner, static_cast<std::uint32_t>(segment.tokens.size())});
    task.writer_of.push_back(i);
  }
  task.grants.resize(task.wants.size());
}

void InferenceCore::acquire(Instant now, Serial serial, Task& task, Effects& effects) {
  task.state = State::acquiring;
  const Duration patience{std::min(task.plan.budget_us / 2, config_.block_wait.us)};
  const bool may_evict = task.plan.priority == Priority::serving;
  effects.send(kv_worker(), AcquireBlocks{serial, patience.us, task.wants, task.plan.evict_first, may_evict});
  effects.set_timer(acquire_timer(serial), now + patience + config_.acquire_grace);
}

void InferenceCore::on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects) {
  if (from != kv_worker()) return effects.count(Metric::protocol_errors);
  const auto at = tasks_.find(acquired.id);
  const bool waits_for_it = at != tasks_.end() && at->second.state == State::acquiring;
  if (waits_for_it && acquired.grants.size() == at->second.wants.size()) {
    at->second.grants = acquired.grants;
    at->second.holds_grants = true;
    return make_ready(now, acquired.id, at->second);
  }
  if (at != tasks_.end() && at->second.holds_grants) return;  // doubled
  effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});  // too late, or not an answer to what was asked
}

void InferenceCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  const Serial serial = timer / 2;
  const auto at = tasks_.find(serial);
  if (at == tasks_.end()) return;
  Task& task = at->second;
  if (task.state != State::running && now >= task.deadline) return refuse(serial, too_late(), effects);
  if (timer != acquire_timer(serial) || task.state != State::acquiring) return;
  release(serial, task, {}, effects);  // the KV-cache worker is silent: the same answer, slower (promise 7)
  make_ready(now, serial, task);
}

bool InferenceCore::is_reused(const Task& task, std::size_t segment) {
  return task.want_of[segment] && task.grants[*task.want_of[segment]].grant == Grant::read;
}

void InferenceCore::make_ready(Instant now, Serial serial, Task& task) {
  task.state = State::ready;
  task.ready_at = now;
  for (std::size_t i = 0; i < task.plan.segments.size(); ++i)
    if (!is_reused(task, i))
      task.new_tokens += static_cast<std::uint32_t>(task.plan.segments[i].tokens.size());
  (task.plan.priority == Priority::background ? background_ : serving_).push_back(serial);
}

// ---- batches ----

void InferenceCore::run_ready(Instant now, Effects& effects) {
  while (batches_.size() < config_.lanes) {
    for (Queue* queue : {&serving_, &background_, &background_arrived_}) drop_ended(now, *queue, effects);
    Queue& next = background_.empty() ? serving_ : background_;
    if (!next.empty()) {
      start_batch(now, take_batch(now, next, effects), effects);
    } else if (!begin_background(now, effects)) {
      break;
    }
  }
  if (waiting_[0] == told_depth_) return;
  told_depth_ = waiting_[0];
  effects.count(Metric::queue_depth, told_depth_);
}

// False if there is none, or if enough of them have begun.
bool InferenceCore::begin_background(Instant now, Effects& effects) {
  if (background_arrived_.empty() || background_begun_ >= config_.background_max) return false;
  const Serial serial = background_arrived_.front();
  background_arrived_.pop_front();
  begin(now, serial, tasks_.at(serial), effects);
  return true;
}

void InferenceCore::drop_ended(Instant now, Queue& queue, Effects& effects) {
  for (const Serial serial : queue) {
    const auto at = tasks_.find(serial);
    if (at != tasks_.end() && now >= at->second.deadline) refuse(serial, too_late(), effects);
  }
  std::erase_if(queue, [&](Serial serial) { return tasks_.count(serial) == 0; });
}

// From a queue that is not empty and holds live tasks only.
std::vector<InferenceCore::Serial> InferenceCore::take_batch(Instant now, Queue& queue, Effects& effects) {
  const std::size_t free_lanes = config_.lanes - batches_.size();
  const std::size_t share = (queue.size() + free_lanes - 1) / free_lanes;
  const std::size_t most = std::clamp<std::size_t>(share, 1, std::max(config_.batch_requests_max, 1U));
  std::vector<Serial> batch;
  std::uint64_t tokens = 0;
  while (!queue.empty() && batch.size() < most) {
    Task& task = tasks_.at(queue.front());
    if (task.holds_grants && now.us - task.ready_at.us > config_.lease.us / 2) {
      release(queue.front(), task, {}, effects);  // their lease may end under the reader
      task.new_tokens = 0;
      for (const PlannedSegment& segment : task.plan.segments)
        task.new_tokens += static_cast<std::uint32_t>(segment.tokens.size());
    }
    if (!batch.empty() && tokens + task.new_tokens > config_.batch_tokens_max) break;
    tokens += task.new_tokens;
    batch.push_back(queue.front());
    queue.pop_front();
  }
  effects.count(Metric::batch_tokens, static_cast<double>(tokens));
  effects.count(Metric::batch_requests, static_cast<double>(batch.size()));
  return batch;
}

void InferenceCore::start_batch(Instant now, const std::vector<Serial>& batch, Effects& effects) {
  RunBatch work;
  for (const Serial serial : batch) {
    Task& task = tasks_.at(serial);
    task.state = State::running;
    task.started = now;
    --waiting(task.plan.priority);
    work.requests.push_back(batch_request(task));
  }
  const Serial job = next_serial_++;
  batches_[job] = batch;
  effects.start(job, std::move(work));
}

BatchRequest InferenceCore::batch_request(Task& task) const {
  BatchRequest request;
  for (std::size_t i = 0; i < task.plan.segments.size(); ++i) {
    BatchSegmentKv& kv = request.kv.emplace_back();
    if (!task.want_of[i]) continue;
    const BlockGrant& grant = task.grants[*task.want_of[i]];
    const bool computed_elsewhere = grant.grant == Grant::write && task.writer_of[*task.want_of[i]] != i;
    if (!computed_elsewhere) kv = {grant.grant, grant.checksum, grant.pages};
  }
  request.segments = std::move(task.plan.segments);
  request.readouts = std::move(task.plan.readouts);
  return request;
}

void InferenceCore::on_batch_done(Instant now, const Done& done, Effects& effects) {
  const auto node = batches_.extract(done.job);
  TROUPE_CHECK(!node.empty(), "a job that ends was started");
  const std::vector<Serial>& batch = node.mapped();
  if (const auto* refusal = std::get_if<Refusal>(&done.result)) {
    for (const Serial serial : batch) refuse(serial, *refusal, effects);
    return;
  }
  const auto& result = std::get<BatchDone>(done.result);
  TROUPE_CHECK(result.replies.size() == batch.size(), "the device answers for each plan");
  effects.count(Metric::compute_seconds, static_cast<double>(result.compute_us) * 1e-6);
  for (std::size_t i = 0; i < batch.size(); ++i)
    finish(now, batch[i], result.replies[i], result.compute_us, effects);
}

void InferenceCore::finish(Instant now, Serial serial, const BatchReply& reply, std::int64_t compute_us,
                           Effects& effects) {
  if (reply.refusal) return refuse(serial, *reply.refusal, effects);
  Task& task = tasks_.at(serial);
  if (task.holds_grants && now.us - task.ready_at.us > config_.lease.us - config_.acquire_grace.us)
    return refuse(serial, lease_ended(), effects);  // its pages may have been somebody else's meanwhile
  std::vector<std::uint8_t> corrupt(task.want_of.size());
  for (const std::uint32_t segment : reply.corrupt) corrupt.at(segment) = 1;

  Executed executed{task.plan.id, reply.readouts, {}, 0, 0, 0, compute_us};
  for (std::size_t i = 0; i < task.want_of.size(); ++i)
    executed.reused.push_back(is_reused(task, i) && !corrupt[i]);
  std::vector<BlockOutcome> outcomes;
  for (std::size_t w = 0; w < task.wants.size(); ++w) {
    const BlockGrant& grant = task.grants[w];
    const std::size_t segment = task.writer_of[w];
    BlockOutcome outcome{task.wants[w].name, grant.generation};
    if (grant.grant == Grant::none) continue;
    if (grant.grant == Grant::read) outcome.outcome = corrupt[segment] ? Outcome::corrupt : Outcome::done;
    if (grant.grant == Grant::write) {
      outcome.outcome = Outcome::written;
      outcome.checksum = reply.checksums.at(segment);
      ++executed.blocks_written;
    }
    outcomes.push_back(outcome);
  }
  executed.blocks_us = task.ready_at.us - task.received.us;
  executed.queue_us = task.started.us - task.ready_at.us;
  effects.send(task.from, std::move(executed));
  ++executed_;
  release(serial, task, std::move(outcomes), effects);
  end(serial);
}

// ---- ends ----

void InferenceCore::refuse(Serial serial, Refusal refusal, Effects& effects) {
  Task& task = tasks_.at(serial);
  effects.send(task.from, Refused{task.plan.id, std::move(refusal)});
  if (task.state == State::acquiring || task.holds_grants) release(serial, task, {}, effects);
  end(serial);
}

// Grants that `outcomes` does not name were neither read to the end nor written.
void InferenceCore::release(Serial serial, Task& task, std::vector<BlockOutcome> outcomes, Effects& effects) {
  if (!task.wants.empty() && (task.state == State::acquiring || task.holds_grants))
    effects.send(kv_worker(), ReleaseBlocks{serial, std::move(outcomes)});
  task.holds_grants = false;
  task.grants.assign(task.wants.size(), {});
}

void InferenceCore::end(Serial serial) {
  const Task& task = tasks_.at(serial);
  if (task.state != State::running) --waiting(task.plan.priority);
  if (task.state != State::arrived) background_begun_ -= task.plan.priority == Priority::background;
  serials_.erase({task.from, task.plan.id});
  tasks_.erase(serial);
}

// Nobody waits for the answers any more; what runs already runs to its end.
void InferenceCore::lose(NodeId node, Effects& effects) {
  std::vector<Serial> lost;
  for (const auto& [serial, task] : tasks_)
    if (task.from.node == node && task.state != State::running) lost.push_back(serial);
  for (const Serial serial : lost) {
    release(serial, tasks_.at(serial), {}, effects);
    end(serial);
  }
}

StatusReply InferenceCore::status(RequestId id) const {
  StatusReply reply{id, config_.node, Role::inference_worker, true, {}};
  const auto field = [&](const char* name, std::uint64_t value) {
    reply.fields.push_back({name, std::to_string(value)});
  };
  field("lanes", config_.lanes);
  field("lanes_busy", batches_.size());
  field("plans_waiting", waiting_[0]);
  field("background_plans_waiting", waiting_[1]);
  field("plans_executed", executed_);
  return reply;
}

}  // namespace troupe::actors
