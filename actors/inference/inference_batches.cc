// Runs ready plans in batches and reports their results.
#include <algorithm>

#include "actors/inference/inference_core.h"
#include "actors/inference/inference_refusals.h"
#include "kernels/base/check.h"
#include "runtime/actor/mutants.h"

namespace troupe::actors {
namespace {

// A batch of more work than this many full batches lets one batch of small plans run beside it.
constexpr double long_batches = 3;

}  // namespace

void InferenceCore::PaceRatio::add(double batch_us, double batch_nominal_us) {
  constexpr double kept = 7.0 / 8;
  us = kept * us + batch_us;
  nominal_us = kept * nominal_us + batch_nominal_us;
}

void InferenceCore::WaitingWork::add(const placement::Pass& more) {
  ++plans;
  pass += more;
}

void InferenceCore::WaitingWork::remove(const placement::Pass& less) {
  --plans;
  pass -= less;
}

void InferenceCore::add_waiting(const Task& task) {
  waiting_[is_background(task.plan)].add(task.pass);
  if (!is_background(task.plan) && fits_batch(task.pass)) waiting_small_.add(task.pass);
}

void InferenceCore::remove_waiting(const Task& task) {
  waiting_[is_background(task.plan)].remove(task.pass);
  if (!is_background(task.plan) && fits_batch(task.pass)) waiting_small_.remove(task.pass);
}

// ---- forming batches ----

void InferenceCore::run_ready(Instant now, Effects& effects) {
  while (batches_.size() < config_.slots) {
    for (Queue* queue : {&serving_, &in_flight_, &background_, &background_arrived_})
      refuse_expired(now, *queue, effects);
    Queue& next = !background_.empty() ? background_ : !serving_.empty() ? serving_ : in_flight_;
    if (!next.empty()) {
      start_batch(now, take_batch(now, next, 0), effects);
    } else if (!begin_background(now, effects)) {
      break;
    }
  }
  if (waiting_small_.plans > 0 && may_run_beside()) {
    refuse_expired(now, serving_, effects);
    const auto small =
        std::ranges::find_if(serving_, [&](Serial serial) { return fits_batch(tasks_.at(serial).pass); });
    if (small != serving_.end())
      start_batch(now, take_batch(now, serving_, static_cast<std::size_t>(small - serving_.begin())),
                  effects);
  }
  if (waiting_[0].plans == counted_depth_) return;
  counted_depth_ = waiting_[0].plans;
  effects.count(Metric::queue_depth, counted_depth_);
}

// Returns false if none waits, or if enough of them have begun.
bool InferenceCore::begin_background(Instant now, Effects& effects) {
  if (background_arrived_.empty() || background_begun_ >= config_.background_max) return false;
  const Serial serial = background_arrived_.front();
  background_arrived_.pop_front();
  begin(now, serial, tasks_.at(serial), effects);
  return true;
}

// Refuses plans whose deadline has passed and plans that would end late. A worker's only plan is
// not refused for the estimate alone: running it corrects a wrong pace.
void InferenceCore::refuse_expired(Instant now, const Queue& queue, Effects& effects) {
  if (mutated(Mutant::unbounded_queue)) return;
  const Queue queued = queue;
  for (const Serial serial : queued) {
    const Task& task = tasks_.at(serial);
    const bool hopeless = tasks_.size() > 1 && !ends_in_time(now, task.pass, task.deadline);
    if (now >= task.deadline || hopeless) refuse(serial, too_late(), effects);
  }
}

bool InferenceCore::ends_in_time(Instant now, const placement::Pass& pass, Instant deadline) const {
  return slot_us(config_.costs.of(pass)) < static_cast<double>((deadline - now).us);
}

// Returns true if all slots run long batches and nothing runs beside them yet.
bool InferenceCore::may_run_beside() const {
  return batches_.size() == config_.slots && std::ranges::all_of(batches_, [&](const auto& entry) {
           return batches_of(entry.second.work) > long_batches;
         });
}

// Takes the plan at index `at` of a queue and the plans behind it that may run with it, in order.
// The others keep their positions.
std::vector<InferenceCore::Serial> InferenceCore::take_batch(Instant now, Queue& queue, std::size_t at) {
  const std::size_t free_slots = batches_.size() < config_.slots ? config_.slots - batches_.size() : 1;
  const std::size_t share = (queue.size() + free_slots - 1) / free_slots;
  const std::size_t most = std::clamp<std::size_t>(share, 1, std::max(config_.batch_requests_max, 1U));
  const Task& first = tasks_.at(queue[at]);
  std::vector<Serial> batch{queue[at]};
  placement::Pass pass = first.pass;
  Instant deadline = first.deadline;  // earliest of the batch
  for (std::size_t i = at + 1; i < queue.size() && batch.size() < most && !runs_alone(first); ++i) {
    const Task& task = tasks_.at(queue[i]);
    if (runs_alone(task) || model_of(task.plan) != model_of(first.plan)) continue;
    const placement::Pass together = pass + task.pass;
    if (!fits_batch(together)) break;
    const Instant earliest = std::min(deadline, task.deadline);
    const bool in_time = ends_in_time(now, together, earliest);
    if (!in_time && !mutated(Mutant::unbounded_queue)) continue;
    deadline = earliest;
    pass = together;
    batch.push_back(queue[i]);
  }
  std::erase_if(queue,
                [&](Serial serial) { return std::find(batch.begin(), batch.end(), serial) != batch.end(); });
  return batch;
}

void InferenceCore::start_batch(Instant now, std::vector<Serial> batch, Effects& effects) {
  RunBatch work;
  work.asks_for_shards = is_sharded();
  placement::Pass pass;
  for (const Serial serial : batch) {
    Task& task = tasks_.at(serial);
    task.state = State::running;
    task.started = now;
    remove_waiting(task);
    pass += task.pass;
    work.requests.push_back(batch_request(now, task, batch.size() > 1 || is_sharded()));
  }
  effects.count(Metric::batch_tokens, static_cast<double>(pass.new_tokens));
  effects.count(Metric::batch_requests, static_cast<double>(batch.size()));
  if (tasks_.at(batch.front()).in_flight) effects.count(Metric::overlap_begun);
  const Serial job = next_serial_++;
  batches_[job] = {std::move(batch), now, config_.costs.of(pass)};
  effects.start(job, std::move(work));
}

BatchRequest InferenceCore::batch_request(Instant now, Task& task, bool keep) const {
  BatchRequest request;
  request.model_version = mutated(Mutant::answer_from_newest_model) ? models_.newest() : model_of(task.plan);
  request.catalog_version = mutated(Mutant::answer_from_newest_catalog) ? models_.versions().catalog_version
                                                                        : task.plan.catalog_version;
  for (std::size_t i = 0; i < task.plan.blocks.size(); ++i) {
    BatchSegmentKv& kv = request.kv.emplace_back();
    if (!task.want_of[i]) continue;
    const BlockGrant& grant = task.grants[*task.want_of[i]];
    const bool computed_elsewhere = grant.grant == Grant::write && task.writer_of[*task.want_of[i]] != i;
    if (!computed_elsewhere)
      kv = {grant.grant, grant.checksum, grant.pages, grant.generation, grant.check, grant.in_flight};
  }
  check_sources(task, request);
  request.plan = keep ? task.plan.plan : std::move(task.plan.plan);
  request.blocks = keep ? task.plan.blocks : std::move(task.plan.blocks);
  if (task.in_flight) request.in_flight_us = std::max<std::int64_t>((task.wait_deadline - now).us, 0);
  return request;
}

// Verifies every block from which a kept block (one written to the pool) is computed, even if an
// earlier reader verified it. Otherwise a flipped bit in one block would live on in others, whose
// checksums would be right.
void InferenceCore::check_sources(const Task& task, BatchRequest& request) {
  if (mutated(Mutant::spread_flipped_bits)) return;
  std::vector<bool> kept(request.kv.size());  // segments on which a kept block depends
  for (std::size_t i = request.kv.size(); i-- > 0;) {
    BatchSegmentKv& kv = request.kv[i];
    if (kv.grant == Grant::read) {
      kv.check = kv.check || kept[i];
    } else if (kept[i] || kv.grant == Grant::write) {
      for (const std::uint32_t seen : task.plan.plan.segments[i].sees) kept[seen] = true;
    }
  }
}

// ---- ended batches ----

namespace {

void count_use(const DeviceUse& use, Effects& effects) {
  if (use.pages == 0) return;
  const std::pair<Metric, std::uint64_t> rows[] = {
      {Metric::device_blocks_hit, use.blocks_hit},         {Metric::device_blocks_missed, use.blocks_missed},
      {Metric::device_blocks_evicted, use.blocks_evicted}, {Metric::device_bytes_in, use.bytes_to_device},
      {Metric::device_bytes_out, use.bytes_to_host},       {Metric::device_pages, use.pages},
      {Metric::device_pages_used, use.pages_used}};
  for (const auto& [metric, amount] : rows) effects.count(metric, static_cast<double>(amount));
}

}  // namespace

void InferenceCore::on_batch_done(Instant now, const JobDone& done, Effects& effects) {
  const auto node = batches_.extract(done.job);
  TROUPE_CHECK(!node.empty(), "an ended job is a running batch");
  Batch& batch = node.mapped();
  if (const auto* refusal = std::get_if<Refusal>(&done.result)) {
    release_shards(batch, {}, effects);
    return on_batch_failed(now, batch, *refusal, effects);
  }
  const auto& result = std::get<BatchDone>(done.result);
  if (!result.away.empty()) return await_shards(now, std::move(batch), result.away, effects);
  release_shards(batch, result.shards, effects);
  TROUPE_CHECK(result.replies.size() == batch.tasks.size(), "the device answers for each plan");
  effects.count(Metric::compute_seconds, static_cast<double>(result.compute_us) * 1e-6);
  count_use(result.device, effects);
  count_rows(result.rows, effects);
  if (result.in_flight_us > 0)
    effects.count(
        Metric::overlap_spared,
        static_cast<double>(std::max<std::int64_t>(0, result.in_flight_us - result.waited_us)) * 1e-6);
  placement::Pass pass;
  for (std::size_t i = 0; i < batch.tasks.size(); ++i) {
    if (!result.replies[i].refusal) pass += tasks_.at(batch.tasks[i]).pass;
    finish(batch.tasks[i], result.replies[i], result.compute_us, effects);
  }
  // A pass that was repeated because blocks in flight did not arrive says nothing about the pace.
  const bool missed =
      std::ranges::any_of(result.replies, [](const auto& reply) { return !reply.missed.empty(); });
  const double nominal_us = config_.nominal_pace.us(config_.costs.of(pass));
  if (nominal_us > 0 && !missed)
    slowness_.add(static_cast<double>((now - batch.started).us - result.waited_us), nominal_us);
}

// A bad plan does not fail the others of its batch. Those that still have time run first, in order,
// each alone.
void InferenceCore::on_batch_failed(Instant now, const Batch& batch, const Refusal& refusal,
                                    Effects& effects) {
  const bool has_neighbours = batch.tasks.size() > 1;
  for (auto at = batch.tasks.rbegin(); at != batch.tasks.rend(); ++at) {
    Task& task = tasks_.at(*at);
    if (!has_neighbours || !ends_in_time(now, task.pass, task.deadline)) {
      refuse(*at, refusal, effects);
      continue;
    }
    task.state = State::ready;
    task.again = true;
    add_waiting(task);
    (is_background(task.plan) ? background_ : serving_).push_front(*at);
  }
}

void InferenceCore::finish(Serial serial, const BatchReply& reply, std::int64_t compute_us,
                           Effects& effects) {
  if (reply.refusal) return refuse(serial, *reply.refusal, effects);
  Task& task = tasks_.at(serial);
  Executed executed{task.plan.id, reply.readouts};
  for (std::size_t i = 0; i < task.want_of.size(); ++i) executed.reused.push_back(is_reused(task, i));
  for (const std::uint32_t segment : reply.corrupt) executed.reused.at(segment) = 0;
  for (const std::uint32_t segment : reply.missed) executed.reused.at(segment) = 0;
  if (!reply.missed.empty()) effects.count(Metric::overlap_missed);
  std::vector<BlockOutcome> outcomes = outcomes_of(task, reply);
  executed.blocks_written = static_cast<std::uint32_t>(std::count_if(
      outcomes.begin(), outcomes.end(), [](const BlockOutcome& o) { return o.outcome == Outcome::written; }));
  executed.blocks_us = (task.ready_at - task.received).us;
  executed.queue_us = (task.started - task.ready_at).us;
  executed.compute_us = compute_us;
  executed.pull_us = task.pull_us;
  executed.model_version = model_of(task.plan);
  executed.beams = reply.beams;
  log_hop(serial, task, "plan_executed",
          {{"blocks_us", executed.blocks_us},
           {"pull_us", executed.pull_us},
           {"queue_us", executed.queue_us},
           {"compute_us", compute_us}},
          effects);
  effects.send(task.from, std::move(executed));
  ++executed_;
  ++answered_;
  release(serial, task, std::move(outcomes), effects);
  end(serial);
}

// Returns the outcomes of written, checked and corrupt blocks.
std::vector<BlockOutcome> InferenceCore::outcomes_of(const Task& task, const BatchReply& reply) {
  std::vector<BlockOutcome> outcomes;
  for (std::size_t w = 0; w < task.wants.size(); ++w) {
    const BlockGrant& grant = task.grants[w];
    const auto segment = static_cast<std::uint32_t>(task.writer_of[w]);
    if (grant.grant == Grant::none) continue;
    const bool corrupt =
        std::find(reply.corrupt.begin(), reply.corrupt.end(), segment) != reply.corrupt.end();
    if (grant.grant == Grant::write) {
      outcomes.push_back(
          {task.wants[w].name, grant.generation, Outcome::written, reply.checksums.at(segment)});
    } else if (corrupt || grant.check) {
      outcomes.push_back({task.wants[w].name, grant.generation, corrupt ? Outcome::corrupt : Outcome::done});
    }
  }
  return outcomes;
}

}  // namespace troupe::actors
