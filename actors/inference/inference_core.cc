// Life of a plan in the inference worker: it is accepted or refused, acquires the blocks that it
// may reuse, waits, and is answered once. The other parts of this class are in
// inference_batches.cc, inference_cluster.cc and inference_rows.cc.
#include "actors/inference/inference_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "actors/inference/inference_refusals.h"
#include "kernels/base/check.h"
#include "placement/cost/plan_work.h"
#include "runtime/actor/block_name.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {
namespace {

// Two timers per task. Serials start above 0, so these numbers lie above the start timer and the
// heartbeat timer.
constexpr std::uint64_t deadline_timer(std::uint64_t serial) { return serial * 2; }
constexpr std::uint64_t acquire_timer(std::uint64_t serial) { return serial * 2 + 1; }

// Bounds a budget from a message, so that adding it to a time does not overflow.
constexpr std::int64_t budget_us_max = 3'600'000'000;

// Maps names to the indices of a plan's wants. The table is built once per plan, without an
// allocation per name.
class WantIndex {
 public:
  explicit WantIndex(std::size_t names) : slots_(std::bit_ceil(2 * names + 1), none) {}

  // Returns the want with that name, or wants.size() if there is none yet; the caller then adds it.
  std::size_t find_or_add(const BlockName& name, const std::vector<BlockWant>& wants) {
    std::size_t at = BlockNameHash{}(name);
    while (true) {
      std::uint32_t& slot = slots_[at++ & (slots_.size() - 1)];
      if (slot == none) slot = static_cast<std::uint32_t>(wants.size());
      if (slot == wants.size() || wants[slot].name == name) return slot;
    }
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> slots_;
};

}  // namespace

InferenceCore::InferenceCore(InferenceConfig config)
    : config_(std::move(config)),
      routers_(config_.routers),
      next_serial_(config_.incarnation),
      recent_(config_.recent_max),
      models_(config_.model_version, config_.model_keep, config_.models_max, config_.heartbeat),
      rows_{.pace = RefillPace(config_.refill_bytes, config_.heartbeat)} {
  if (!config_.shard_owners.empty()) owners_.emplace(config_.shard_owners);
  TROUPE_CHECK(config_.slots > 0, "slots is positive");
  TROUPE_CHECK(config_.incarnation > 0, "timers count from the incarnation, and the first two are taken");
  TROUPE_CHECK(config_.heartbeat.us > 0, "heartbeat is positive");
}

void InferenceCore::step(Instant now, Event&& event, Effects& effects) {
  if (const auto* received = std::get_if<Received>(&event)) {
    on_message(now, *received, effects);
  } else if (const auto* fired = std::get_if<TimerFired>(&event)) {
    on_timer(now, fired->timer, effects);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    if (done->job == model_job_) {
      on_model_changed(now, *done, effects);
    } else if (!on_rows_done(*done, effects) && !on_shards_filled(now, *done, effects)) {
      on_batch_done(now, *done, effects);
    }
  } else if (const auto* lost = std::get_if<PeerLost>(&event)) {
    routers_.lose(lost->node);
    // No one waits for these answers any more. Plans that run already run to their end.
    unanswered_ += drop_waiting([&](const Task& task) { return task.from.node == lost->node; }, effects);
  }
  run_ready(now, effects);
  change_models(now, effects);
}

void InferenceCore::on_message(Instant now, const Received& received, Effects& effects) {
  if (const auto* plan = std::get_if<Execute>(&received.message)) {
    on_execute(now, received.from, *plan, effects);
  } else if (const auto* acquired = std::get_if<BlocksAcquired>(&received.message)) {
    on_acquired(now, received.from, *acquired, effects);
  } else if (const auto* lend = std::get_if<LendPages>(&received.message)) {
    on_lend(received.from, *lend, effects);
  } else if (const auto* versions = std::get_if<Versions>(&received.message)) {
    on_versions(now, received.from, *versions, effects);
  } else if (const auto* drain = std::get_if<Drain>(&received.message)) {
    on_drain(now, received.from, *drain, effects);
  } else if (const auto* request = std::get_if<StatusRequest>(&received.message)) {
    effects.send(received.from, status(now, request->id));
  } else {
    effects.count(Metric::protocol_errors);
  }
}

void InferenceCore::on_timer(Instant now, std::uint64_t timer, Effects& effects) {
  if (timer == start_timer || timer == heartbeat_timer) return on_heartbeat(now, effects);
  const Serial serial = timer / 2;
  if (on_shards_timer(now, serial, effects)) return;
  const auto at = tasks_.find(serial);
  if (at == tasks_.end()) return;
  Task& task = at->second;
  const bool expired = now >= task.deadline && !mutated(Mutant::unbounded_queue);
  if (task.state != State::running && expired) return refuse(serial, too_late(), effects);
  if (timer != acquire_timer(serial)) return;
  if (task.in_flight && task.state == State::ready) return stop_awaiting(now, serial, task);
  if (task.state != State::acquiring) return;
  // No answer from the KV-cache worker: the same result, slower (promise 7).
  release(serial, task, {}, effects);
  make_ready(now, serial, task);
}

// ---- a plan arrives ----

void InferenceCore::on_execute(Instant now, Address from, const Execute& plan, Effects& effects) {
  if (serials_.contains({from, plan.id}) || recent_.contains(from, plan.id)) return;
  if (auto refusal = validate_plan(now, plan)) {
    recent_.add(from, plan.id);
    return effects.send(from, Refused{plan.id, std::move(*refusal)});
  }
  accept(now, from, plan, effects);
}

std::optional<Refusal> InferenceCore::validate_plan(Instant now, const Execute& plan) const {
  if (draining_) return drains();
  if (plan.budget_us <= 0) return too_late();
  if (!models_.serves(now, model_of(plan))) return wrong_model(model_of(plan), models_.served(now));
  if (plan.blocks.size() != plan.plan.segments.size())
    return bad_blocks(plan.blocks.size(), plan.plan.segments.size());
  if (mutated(Mutant::unbounded_queue)) return std::nullopt;
  if (waiting_[is_background(plan)].plans >= queue_max(plan)) return queue_full(queue_max(plan));
  if (!is_background(plan) && cannot_finish(plan)) return no_time(plan.budget_us);
  return std::nullopt;
}

// Estimates cautiously in the plan's favour. Waiting plans count with all tokens that they may have
// to compute, and running plans with half of theirs. The plan itself counts only with tokens that
// it surely computes, since its blocks may be reused. While no plan waits, a plan is always taken:
// running it measures how fast the device is now. A small plan that may run beside those in the
// slots waits only for other small ones.
bool InferenceCore::cannot_finish(const Execute& plan) const {
  if (waiting_[0].plans == 0) return false;
  const placement::Pass own = placement::pass_of(
      plan.plan, [&](std::size_t i) { return plan.blocks[i].name.has_value(); }, config_.costs.layers);
  double running_us = 0;
  for (const auto& [job, batch] : batches_) running_us += slot_us(batch.work) / 2;
  const auto budget_us = static_cast<double>(plan.budget_us);
  const bool in_slots = done_us(waiting_[0], running_us, config_.slots, own) <= budget_us;
  if (in_slots || !fits_batch(own) || !may_run_beside()) return !in_slots;
  return done_us(waiting_small_, 0, 1, own) > budget_us;
}

double InferenceCore::done_us(const WaitingWork& ahead, double running_us, std::uint32_t slots,
                              const placement::Pass& own) const {
  return (slot_us(work_of(ahead)) + running_us) / slots + slot_us(config_.costs.of(own));
}

double InferenceCore::slot_us(const placement::Work& work) const {
  return config_.nominal_pace.us(work) * slowness_.times();
}

placement::Work InferenceCore::work_of(const WaitingWork& waiting) const {
  if (waiting.plans == 0) return {};
  placement::Work work = config_.costs.of(waiting.pass);
  const double most = config_.costs.token_operations * config_.batch_tokens_max;
  const double batches =
      std::max(work.operations / most, double(waiting.plans) / std::max(config_.batch_requests_max, 1U));
  return work + config_.costs.passes(std::max(0.0, std::ceil(batches) - 1));
}

// Returns the work in units of full batches.
double InferenceCore::batches_of(const placement::Work& work) const {
  return work.operations / (config_.costs.token_operations * config_.batch_tokens_max);
}

bool InferenceCore::fits_batch(const placement::Pass& pass) const {
  return batches_of(config_.costs.of(pass)) <= 1;
}

void InferenceCore::accept(Instant now, Address from, const Execute& plan, Effects& effects) {
  const Serial serial = next_serial_++;
  serials_[{from, plan.id}] = serial;
  ++accepted_;
  Task& task = tasks_[serial];
  task.from = from;
  task.plan = plan;
  task.received = now;
  task.deadline = now + Duration{std::min(plan.budget_us, budget_us_max)};
  task.pass = placement::pass_of(
      plan.plan, [](std::size_t) { return false; }, config_.costs.layers);
  collect_wants(task);
  add_waiting(task);
  effects.set_timer(deadline_timer(serial), task.deadline);
  if (is_background(plan)) return background_arrived_.push_back(serial);
  begin(now, serial, task, effects);
}

// Candidates with the same tokens are the same block, which is wanted once. A segment whose block
// name only collides is computed.
void InferenceCore::collect_wants(Task& task) {
  WantIndex wanted(task.plan.blocks.size());
  task.want_of.reserve(task.plan.blocks.size());
  for (std::size_t i = 0; i < task.plan.blocks.size(); ++i) {
    const SegmentBlock& block = task.plan.blocks[i];
    task.want_of.emplace_back();
    if (!block.name) continue;
    const std::size_t want = wanted.find_or_add(*block.name, task.wants);
    const bool fresh = want == task.wants.size();
    if (!fresh && !identical(task.wants[want].name, *block.name) && !mutated(Mutant::skip_identity_check))
      continue;
    task.want_of[i] = want;
    if (!fresh) continue;
    const Segment& segment = task.plan.plan.segments[i];
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    task.wants.push_back({*block.name, segment.kind, block.owner, tokens, block.at});
    task.writer_of.push_back(i);
  }
  task.grants.resize(task.wants.size());
}

// ---- a plan acquires its blocks ----

void InferenceCore::begin(Instant now, Serial serial, Task& task, Effects& effects) {
  background_begun_ += is_background(task.plan);
  if (task.wants.empty()) return make_ready(now, serial, task);
  acquire(now, serial, task, effects);
}

// Sets what computing each block takes here, at the recent pace, minus the cost of reading it.
// Before anything was computed, the nominal pace is used.
void InferenceCore::weigh_wants(Task& task) const {
  const std::vector<std::uint64_t> seen = placement::tokens_seen(task.plan.plan);
  const double times = slowness_.times() > 0 ? slowness_.times() : 1;
  for (std::size_t i = 0; i < task.wants.size(); ++i) {
    const auto tokens = static_cast<double>(task.wants[i].tokens);
    const double computed_us =
        config_.nominal_pace.us(config_.costs.computed(tokens, static_cast<double>(seen[task.writer_of[i]])));
    const double spared_us = computed_us - config_.nominal_pace.us(config_.costs.reused(tokens));
    task.wants[i].compute_us = static_cast<float>(std::max(spared_us, 0.0) * times);
  }
}

void InferenceCore::acquire(Instant now, Serial serial, Task& task, Effects& effects) {
  task.state = State::acquiring;
  const Duration wait{std::min(task.plan.budget_us / 2, config_.block_wait.us)};
  const bool may_evict = !is_background(task.plan) || task.plan.retention.belongs;
  weigh_wants(task);
  AcquireBlocks ask{serial, wait.us, task.wants, std::move(task.plan.retention), may_evict};
  ask.early = config_.overlap && !is_background(task.plan);
  ask.trace = task.plan.trace;
  effects.send(kv_worker(), std::move(ask));
  task.wait_deadline = now + wait + config_.acquire_grace;
  effects.set_timer(acquire_timer(serial), task.wait_deadline);
}

void InferenceCore::on_acquired(Instant now, Address from, const BlocksAcquired& acquired, Effects& effects) {
  if (from != kv_worker()) return effects.count(Metric::protocol_errors);
  if (on_shards_acquired(now, acquired, effects)) return;
  const auto at = tasks_.find(acquired.id);
  const bool waits_for_it = at != tasks_.end() && at->second.state == State::acquiring;
  if (waits_for_it && acquired.grants.size() == at->second.wants.size()) {
    at->second.grants = acquired.grants;
    at->second.pull_us = acquired.pull_us;
    at->second.holds_grants = true;
    return make_ready(now, acquired.id, at->second);
  }
  if (at != tasks_.end() && at->second.holds_grants)
    // A duplicate, or the second of two answers.
    return on_final_grants(now, acquired.id, at->second, acquired);
  // Too late, or not an answer to this request.
  effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});
}

// Handles the second answer: all blocks in flight have arrived or failed. A running task sees that
// by itself.
void InferenceCore::on_final_grants(Instant now, Serial serial, Task& task, const BlocksAcquired& acquired) {
  const auto is_in_flight = [](const BlockGrant& grant) { return grant.in_flight; };
  if (!task.in_flight || acquired.grants.size() != task.wants.size() ||
      std::ranges::any_of(acquired.grants, is_in_flight))
    return;
  task.pull_us = acquired.pull_us;
  if (task.state != State::ready) return;
  task.grants = acquired.grants;
  task.in_flight = false;
  std::erase(in_flight_, serial);
  make_ready(now, serial, task);
}

// Stops waiting for blocks in flight that take too long; they are computed.
void InferenceCore::stop_awaiting(Instant now, Serial serial, Task& task) {
  for (BlockGrant& grant : task.grants)
    if (grant.in_flight) grant = {};
  task.in_flight = false;
  std::erase(in_flight_, serial);
  make_ready(now, serial, task);
}

bool InferenceCore::is_reused(const Task& task, std::size_t segment) {
  return task.want_of[segment] && task.grants[*task.want_of[segment]].grant == Grant::read;
}

void InferenceCore::make_ready(Instant now, Serial serial, Task& task) {
  task.state = State::ready;
  task.ready_at = now;
  remove_waiting(task);
  task.pass = placement::pass_of(
      task.plan.plan, [&](std::size_t i) { return is_reused(task, i); }, config_.costs.layers);
  add_waiting(task);
  task.in_flight = std::ranges::any_of(task.grants, &BlockGrant::in_flight);
  (task.in_flight ? in_flight_ : is_background(task.plan) ? background_ : serving_).push_back(serial);
}

// ---- a plan ends ----

// Logs one step of a request whose client records a trace.
void InferenceCore::log_hop(Serial serial, const Task& task, const char* event, std::vector<LogField> fields,
                            Effects& effects) {
  if (!task.plan.trace.sampled) return;
  fields.insert(fields.begin(),
                {{"plan", serial}, {"request", task.plan.id}, {"trace_id", trace_id(task.plan.trace)}});
  effects.log(LogLevel::debug, event, std::move(fields));
}

void InferenceCore::refuse(Serial serial, Refusal refusal, Effects& effects) {
  Task& task = tasks_.at(serial);
  log_hop(serial, task, "plan_refused", {{"code", refusal.code}, {"why", refusal.what}}, effects);
  effects.send(task.from, Refused{task.plan.id, std::move(refusal)});
  ++answered_;
  if (!mutated(Mutant::keep_grants)) release(serial, task, {}, effects);
  end(serial);
}

// Grants that `outcomes` does not name were neither read to the end nor written.
void InferenceCore::release(Serial serial, Task& task, std::vector<BlockOutcome> outcomes, Effects& effects) {
  if (task.state == State::acquiring || task.holds_grants)
    effects.send(kv_worker(), ReleaseBlocks{serial, std::move(outcomes)});
  task.holds_grants = false;
  task.grants.assign(task.wants.size(), {});
}

void InferenceCore::end(Serial serial) {
  const Task& task = tasks_.at(serial);
  if (task.state != State::running) {
    remove_waiting(task);
    for (Queue* queue : {&serving_, &in_flight_, &background_, &background_arrived_})
      std::erase(*queue, serial);
  }
  if (task.state != State::arrived) background_begun_ -= is_background(task.plan);
  recent_.add(task.from, task.plan.id);
  serials_.erase({task.from, task.plan.id});
  tasks_.erase(serial);
}

std::size_t InferenceCore::drop_waiting(const std::function<bool(const Task&)>& which, Effects& effects) {
  std::vector<Serial> dropped;
  for (const auto& [serial, task] : tasks_)
    if (task.state != State::running && which(task)) dropped.push_back(serial);
  for (const Serial serial : dropped) {
    release(serial, tasks_.at(serial), {}, effects);
    end(serial);
  }
  return dropped.size();
}

// ---- queries ----

std::uint32_t InferenceCore::queue_max(const Execute& plan) const {
  return is_background(plan) ? config_.background_queue_max : config_.queue_max;
}

const std::string& InferenceCore::model_of(const Execute& plan) const {
  return plan.model_version.empty() ? config_.model_version : plan.model_version;
}

std::size_t InferenceCore::count(State state) const {
  return static_cast<std::size_t>(std::count_if(
      tasks_.begin(), tasks_.end(), [state](const auto& entry) { return entry.second.state == state; }));
}

std::string InferenceCore::check_bounds() const {
  const auto excess = [](const char* what, std::size_t is, std::size_t most) {
    return is <= most ? ""
                      : std::string(what) + " are " + std::to_string(is) + "; expected at most " +
                            std::to_string(most) + ". ";
  };
  const std::size_t batch_max = std::max(config_.batch_requests_max, 1U);
  const auto again = static_cast<std::size_t>(
      std::count_if(tasks_.begin(), tasks_.end(), [](const auto& entry) { return entry.second.again; }));
  const std::size_t waiting_max = std::size_t{config_.queue_max} + config_.background_queue_max;
  // Every accepted plan is answered, unless its router is gone.
  if (accepted_ != answered_ + unanswered_ + tasks_.size())
    return std::to_string(accepted_) + " plans were accepted, " + std::to_string(answered_) + " answered, " +
           std::to_string(unanswered_) + " lost their router, " + std::to_string(tasks_.size()) + " are here";
  return excess("waiting plans", waiting_[0].plans, config_.queue_max + again) +
         excess("waiting background plans", waiting_[1].plans, config_.background_queue_max + again) +
         excess("queued plans",
                serving_.size() + in_flight_.size() + background_.size() + background_arrived_.size(),
                waiting()) +
         excess("plans", tasks_.size(), waiting_max + (config_.slots + 1) * batch_max) +
         excess("running batches", batches_.size(), config_.slots + 1) +
         excess("begun background plans", background_begun_, config_.background_max) +
         excess("remembered plans", recent_.size(), config_.recent_max) +
         excess("models", models_.size(), config_.models_max);
}

}  // namespace troupe::actors
