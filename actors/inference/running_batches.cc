// Starts batches as jobs and ends them. In between, a batch may wait for shards of embedding tables
// and start again.
#include "actors/inference/running_batches.h"

#include <algorithm>
#include <utility>

#include "kernels/base/check.h"

namespace troupe::actors {
namespace {

// Numbered as a task's timer for its blocks: tasks and requests for shards share one sequence.
constexpr std::uint64_t shards_timer(Serial serial) { return serial * 2 + 1; }

}  // namespace

void RunningBatches::start(Instant now, std::vector<Task*> tasks, const placement::Work& work,
                           Effects& effects) {
  RunBatch job;
  job.asks_for_shards = shards_.any();
  RunningBatch batch;
  batch.tasks = std::move(tasks);
  batch.work = work;
  start_job(now, std::move(batch), std::move(job), effects);
}

void RunningBatches::start_job(Instant now, RunningBatch batch, RunBatch work, Effects& effects) {
  work.requests.reserve(batch.tasks.size());
  for (const Task* task : batch.tasks) {
    work.requests.push_back(task->request);
    if (task->blocks.in_flight())
      work.in_flight_us = std::max<std::int64_t>((task->wait_deadline - now).us, 0);
  }
  batch.started = now;
  const Serial job = serials_.next();
  batches_[job] = std::move(batch);
  effects.start(job, std::move(work));
}

std::optional<RunningBatch> RunningBatches::end(Instant now, JobDone& done, Effects& effects) {
  auto node = batches_.extract(done.job);
  TROUPE_CHECK(!node.empty(), "an ended job is a running batch");
  RunningBatch batch = std::move(node.mapped());
  auto* result = std::get_if<BatchDone>(&done.result);
  if (result && !result->away.empty()) {
    await_shards(now, std::move(batch), std::move(result->away), effects);
    return std::nullopt;
  }
  if (batch.holds_shards) {
    std::vector<BlockOutcome> outcomes;
    if (result) outcomes = std::move(result->shards);
    effects.send(kv_worker(), ReleaseBlocks{batch.asked, std::move(outcomes)});
  }
  return batch;
}

double RunningBatches::slot_us(const BatchTimes& times) const {
  double us = 0;
  for (const auto& [job, batch] : batches_) us += times.slot_us(batch.work);
  return us;
}

bool RunningBatches::are_longer_than(double batches, const BatchTimes& times) const {
  return std::ranges::all_of(
      batches_, [&](const auto& entry) { return times.batches_of(entry.second.work) > batches; });
}

// ---- shards that a batch missed ----

void RunningBatches::await_shards(Instant now, RunningBatch batch, std::vector<TableShard> away,
                                  Effects& effects) {
  const Task* const first = *std::ranges::min_element(batch.tasks, {}, &Task::deadline);
  const Serial serial = serials_.next();
  AcquireBlocks ask = shards_.request(serial, away, false);
  ask.budget_us = std::clamp<std::int64_t>((first->deadline - now).us / 2, 0, ask.budget_us);
  batch.asked = serial;
  batch.missed = std::move(away);
  effects.set_timer(shards_timer(serial), now + Duration{ask.budget_us} + config_.acquire_grace);
  effects.send(kv_worker(), std::move(ask));
  batches_[serial] = std::move(batch);
}

bool RunningBatches::on_acquired(Instant now, BlocksAcquired& acquired, Effects& effects) {
  const auto at =
      std::ranges::find_if(batches_, [&](const auto& entry) { return entry.second.asked == acquired.id; });
  if (at == batches_.end() || acquired.id == 0) return false;
  const bool waits = at->first == acquired.id;  // otherwise a duplicate, or it gave up waiting
  RunningBatch& batch = at->second;
  if (waits) batch.holds_shards = acquired.grants.size() == batch.missed.size();
  if (!batch.holds_shards) {
    effects.send(kv_worker(), ReleaseBlocks{acquired.id, {}});
    acquired.grants.clear();
  }
  if (waits) run_with_shards(now, acquired.id, std::move(acquired.grants), effects);
  return true;
}

bool RunningBatches::on_timer(Instant now, Serial serial, Effects& effects) {
  const auto at = batches_.find(serial);
  if (at == batches_.end() || at->second.asked != serial) return false;
  effects.send(kv_worker(), ReleaseBlocks{serial, {}});  // no answer: the table has all rows
  run_with_shards(now, serial, {}, effects);
  return true;
}

void RunningBatches::run_with_shards(Instant now, Serial asked, std::vector<BlockGrant> grants,
                                     Effects& effects) {
  RunningBatch batch = std::move(batches_.extract(asked).mapped());
  RunBatch work;
  work.shards = granted_shards(batch.missed, std::move(grants));
  // Always verifies shards. A corrupt row would be copied into the row cache and computed into kept
  // blocks, and their checksums, taken afterwards, would not reveal it.
  for (GrantedShard& shard : work.shards) shard.grant.check = true;
  start_job(now, std::move(batch), std::move(work), effects);
}

}  // namespace troupe::actors
