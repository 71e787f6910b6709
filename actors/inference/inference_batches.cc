// Runs ready plans in batches and reports their results. Every plan ends here.
#include <algorithm>
#include <utility>

#include "actors/inference/inference_core.h"
#include "actors/inference/inference_refusals.h"
#include "kernels/base/check.h"

namespace troupe::actors {

void InferenceCore::run_ready(Instant now, Effects& effects) {
  while (batches_.size() < config_.slots) {
    while (Task* const late = schedule_.find_late(now, tasks_.size())) refuse(*late, too_late(), effects);
    if (auto batch = schedule_.next_batch(now, batches_.size()); !batch.empty()) {
      start_batch(now, std::move(batch), effects);
    } else if (schedule_.waits_for_more(now, batches_.size())) {
      const Instant begins = schedule_.begins_at(now, batches_.size());
      if (begins != batch_timer_at_) effects.set_timer(batch_timer, begins);
      batch_timer_at_ = begins;
      break;
    } else if (Task* const background = schedule_.next_background()) {
      begin(now, *background, effects);
    } else {
      break;
    }
  }
  if (schedule_.waits_small() && schedule_.may_run_beside(batches_)) {
    while (Task* const late = schedule_.find_late_serving(now, tasks_.size()))
      refuse(*late, too_late(), effects);
    if (auto batch = schedule_.next_batch_beside(now); !batch.empty())
      start_batch(now, std::move(batch), effects);
  }
  schedule_.count_depth(effects);
}

void InferenceCore::start_batch(Instant now, std::vector<Task*> batch, Effects& effects) {
  placement::Pass pass;
  for (Task* task : batch) {
    pass += task->pass;
    if (!task->request) make_request(*task);
  }
  effects.count(Metric::batch_tokens, static_cast<double>(pass.new_tokens));
  effects.count(Metric::batch_requests, static_cast<double>(batch.size()));
  if (batch.front()->blocks.in_flight()) effects.count(Metric::overlap_begun);
  batches_.start(now, std::move(batch), times_.work_of(pass), effects);
}

// Moves the plan, its blocks and its grants' pages out of the task.
void InferenceCore::make_request(Task& task) const {
  BatchRequest request;
  request.kv = task.blocks.take_kv(task.execute.plan);
  request.plan = std::move(task.execute.plan);
  request.blocks = std::move(task.execute.blocks);
  request.model_version = task.execute.model_version;
  request.catalog_version = task.execute.catalog_version;
  task.request = std::make_shared<const BatchRequest>(std::move(request));
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

void InferenceCore::on_batch_done(Instant now, JobDone&& done, Effects& effects) {
  const std::optional<RunningBatch> batch = batches_.end(now, done, effects);
  if (!batch) return;
  if (const auto* refusal = std::get_if<Refusal>(&done.result))
    return on_batch_failed(now, *batch, *refusal, effects);
  auto& result = std::get<BatchDone>(done.result);
  TROUPE_CHECK(result.replies.size() == batch->tasks.size(), "the device answers for each plan");
  effects.count(Metric::compute_seconds, static_cast<double>(result.compute_us) * 1e-6);
  count_use(result.device, effects);
  lent_pages_.count(result.rows, effects);
  if (result.in_flight_us > 0) {
    const std::int64_t spared_us = std::max<std::int64_t>(0, result.in_flight_us - result.waited_us);
    effects.count(Metric::overlap_spared, static_cast<double>(spared_us) * 1e-6);
  }
  placement::Pass pass;
  bool missed = false;
  for (std::size_t i = 0; i < batch->tasks.size(); ++i) {
    if (!result.replies[i].refusal) pass += batch->tasks[i]->pass;
    missed = missed || !result.replies[i].missed.empty();
    finish(*batch->tasks[i], std::move(result.replies[i]), result.compute_us, effects);
  }
  // A pass that was repeated because blocks in flight did not arrive says nothing about the pace.
  if (!missed) times_.measure(pass, (now - batch->started).us - result.waited_us);
}

// A bad plan does not fail the others of its batch. Those that still have time run first, in order,
// each alone.
void InferenceCore::on_batch_failed(Instant now, const RunningBatch& batch, const Refusal& refusal,
                                    Effects& effects) {
  const bool has_neighbours = batch.tasks.size() > 1;
  for (auto at = batch.tasks.rbegin(); at != batch.tasks.rend(); ++at) {
    Task& task = **at;
    if (has_neighbours && times_.ends_in_time(now, task.pass, task.deadline))
      schedule_.run_again(task);
    else
      refuse(task, refusal, effects);
  }
}

void InferenceCore::finish(Task& task, BatchReply&& reply, std::int64_t compute_us, Effects& effects) {
  if (reply.refusal) return refuse(task, std::move(*reply.refusal), effects);
  const std::vector<SegmentBlock>& named = task.request->blocks;
  Executed executed{task.execute.id, std::move(reply.readouts)};
  executed.reused.resize(named.size());
  for (std::size_t i = 0; i < named.size(); ++i) executed.reused[i] = task.blocks.is_reused(i);
  for (const std::uint32_t segment : reply.corrupt) executed.reused.at(segment) = 0;
  for (const std::uint32_t segment : reply.missed) executed.reused.at(segment) = 0;
  if (!reply.missed.empty()) effects.count(Metric::overlap_missed);
  std::vector<BlockOutcome> outcomes = task.blocks.outcomes(named, reply);
  executed.blocks_written =
      static_cast<std::uint32_t>(std::ranges::count(outcomes, Outcome::written, &BlockOutcome::outcome));
  executed.blocks_us = (task.ready_at - task.received).us;
  executed.queue_us = (task.started - task.ready_at).us;
  executed.compute_us = compute_us;
  executed.pull_us = task.pull_us;
  executed.model_version = task.execute.model_version;
  executed.beams = std::move(reply.beams);
  schedule_.forget(task);
  tasks_.answer(task, std::move(executed), std::move(outcomes), effects);
}

void InferenceCore::refuse(Task& task, Refusal refusal, Effects& effects) {
  schedule_.forget(task);
  tasks_.refuse(task, std::move(refusal), effects);
}

void InferenceCore::drop(std::span<Task* const> tasks, Effects& effects) {
  for (Task* task : tasks) {
    schedule_.forget(*task);
    tasks_.drop(*task, effects);
  }
}

}  // namespace troupe::actors
