// Queues plans that do not run yet and forms batches of them, so that each ends in time and no
// executor slot idles.
#include "actors/inference/batch_schedule.h"

#include <algorithm>

#include "placement/cost/plan_work.h"

namespace troupe::actors {
namespace {

// A batch of more work than this many full batches lets one batch of small plans run beside it.
constexpr double long_batches = 3;

}  // namespace

// ---- admission ----

// Estimates cautiously in the plan's favour. Waiting plans count with all tokens that they may have
// to compute, and running plans with half of theirs. The plan itself counts only with tokens that
// it surely computes, since its blocks may be reused. While no plan waits, a plan is always taken:
// running it measures how fast the device is now. A small plan that may run beside those in the
// slots waits only for other small ones.
bool BatchSchedule::cannot_finish(const Execute& execute, const RunningBatches& running) const {
  if (waiting_[0].plans == 0) return false;
  const placement::Pass own = placement::pass_of(
      execute.plan, [&](std::size_t i) { return execute.blocks[i].name.has_value(); }, config_.costs.layers);
  const auto budget_us = static_cast<double>(execute.budget_us);
  const bool in_slots = done_us(waiting_[0], running.slot_us(times_) / 2, config_.slots, own) <= budget_us;
  if (in_slots || !times_.fits_batch(own) || !may_run_beside(running)) return !in_slots;
  return done_us(waiting_small_, 0, 1, own) > budget_us;
}

double BatchSchedule::done_us(const WaitingPlans& ahead, double running_us, std::uint32_t slots,
                              const placement::Pass& own) const {
  return (times_.slot_us(times_.work_of(ahead)) + running_us) / slots + times_.slot_us(own);
}

// ---- waiting plans ----

placement::Pass BatchSchedule::pass_of(const Task& task) const {
  return placement::pass_of(
      task.execute.plan, [&](std::size_t i) { return task.blocks.is_reused(i); }, config_.costs.layers);
}

void BatchSchedule::add_waiting(const Task& task) {
  waiting_[task.is_background()].add(task.pass);
  if (!task.is_background() && times_.fits_batch(task.pass)) waiting_small_.add(task.pass);
}

void BatchSchedule::remove_waiting(const Task& task) {
  waiting_[task.is_background()].remove(task.pass);
  if (!task.is_background() && times_.fits_batch(task.pass)) waiting_small_.remove(task.pass);
}

void BatchSchedule::add(Task& task) {
  task.pass = pass_of(task);
  add_waiting(task);
  if (task.is_background()) background_arrived_.push_back(&task);
}

void BatchSchedule::make_ready(Instant now, Task& task) {
  std::erase(in_flight_, &task);
  remove_waiting(task);
  task.state = Task::State::ready;
  task.ready_at = now;
  task.pass = pass_of(task);
  add_waiting(task);
  Queue& queue = task.blocks.in_flight() ? in_flight_ : task.is_background() ? background_ : serving_;
  queue.push_back(&task);
}

void BatchSchedule::run_again(Task& task) {
  task.state = Task::State::ready;
  task.again = true;
  add_waiting(task);
  (task.is_background() ? background_ : serving_).push_front(&task);
}

void BatchSchedule::forget(Task& task) {
  if (task.state != Task::State::running) {
    remove_waiting(task);
    for (Queue* queue : {&serving_, &in_flight_, &background_, &background_arrived_})
      std::erase(*queue, &task);
  }
  if (task.state != Task::State::arrived) background_begun_ -= task.is_background();
}

Task* BatchSchedule::next_background() {
  if (background_arrived_.empty() || background_begun_ >= config_.background_max) return nullptr;
  Task* const task = background_arrived_.front();
  background_arrived_.pop_front();
  ++background_begun_;
  return task;
}

// A worker's only plan is not late by the estimate alone: running it corrects a wrong pace.
bool BatchSchedule::is_late(Instant now, const Task& task, std::size_t plans) const {
  return now >= task.deadline || (plans > 1 && !times_.ends_in_time(now, task.pass, task.deadline));
}

Task* BatchSchedule::find_late(Instant now, const Queue& queue, std::size_t plans) const {
  const auto late = std::ranges::find_if(queue, [&](Task* task) { return is_late(now, *task, plans); });
  return late == queue.end() ? nullptr : *late;
}

Task* BatchSchedule::find_late(Instant now, std::size_t plans) const {
  for (const Queue* queue : queues())
    if (Task* const late = find_late(now, *queue, plans)) return late;
  return nullptr;
}

Task* BatchSchedule::find_late_serving(Instant now, std::size_t plans) const {
  return find_late(now, serving_, plans);
}

// ---- forming batches ----

// Plans that fill all free slots or the queue are not waited for: no other could join them. The estimate of a
// plan's end counts all that are ready.
Instant BatchSchedule::begins_at(Instant now, std::size_t slots_used) const {
  const Task& first = *serving_.front();
  const std::size_t free_slots = config_.slots - slots_used;
  if (config_.batch_wait.us == 0 || first.runs_alone()) return now;
  if (serving_.size() >= free_slots * std::max(config_.batch_requests_max, 1U)) return now;
  if (waiting_[0].plans >= config_.queue_max) return now;
  placement::Pass ready;
  Instant deadline = first.deadline;
  for (const Task* task : serving_) {
    ready += task->pass;
    deadline = std::min(deadline, task->deadline);
  }
  if (times_.batches_of(times_.work_of(ready)) >= static_cast<double>(free_slots)) return now;
  // Half of what is left before the earliest deadline stays for delays, as of timers.
  const double left_us = static_cast<double>((deadline - first.ready_at).us) - times_.slot_us(ready);
  const Duration spare{static_cast<std::int64_t>(std::max(left_us, 0.0) / 2)};
  return first.ready_at + std::min(config_.batch_wait, spare);
}

std::vector<Task*> BatchSchedule::next_batch(Instant now, std::size_t slots_used) {
  if (waits_for_more(now, slots_used)) return {};
  Queue& next = !background_.empty() ? background_ : !serving_.empty() ? serving_ : in_flight_;
  if (next.empty()) return {};
  return take_batch(now, next, 0, config_.slots - slots_used);
}

std::vector<Task*> BatchSchedule::next_batch_beside(Instant now) {
  const auto small =
      std::ranges::find_if(serving_, [&](const Task* task) { return times_.fits_batch(task->pass); });
  if (small == serving_.end()) return {};
  return take_batch(now, serving_, static_cast<std::size_t>(small - serving_.begin()), 1);
}

// Returns true if all slots run long batches and nothing runs beside them yet.
bool BatchSchedule::may_run_beside(const RunningBatches& running) const {
  return running.size() == config_.slots && running.are_longer_than(long_batches, times_);
}

// Takes the plan at index `at` of a queue and the plans behind it that may run with it, in order.
// The others keep their positions.
std::vector<Task*> BatchSchedule::take_batch(Instant now, Queue& queue, std::size_t at,
                                             std::size_t free_slots) {
  const std::size_t share = (queue.size() + free_slots - 1) / free_slots;
  const std::size_t most = std::clamp<std::size_t>(share, 1, std::max(config_.batch_requests_max, 1U));
  const Task& first = *queue[at];
  std::vector<Task*> batch{queue[at]};
  placement::Pass pass = first.pass;
  Instant deadline = first.deadline;  // earliest of the batch
  for (std::size_t i = at + 1; i < queue.size() && batch.size() < most && !first.runs_alone(); ++i) {
    const Task& task = *queue[i];
    if (task.runs_alone() || task.execute.model_version != first.execute.model_version) continue;
    const placement::Pass together = pass + task.pass;
    if (!times_.fits_batch(together)) break;
    const Instant earliest = std::min(deadline, task.deadline);
    const bool in_time = times_.ends_in_time(now, together, earliest);
    if (!in_time) continue;
    deadline = earliest;
    pass = together;
    batch.push_back(queue[i]);
  }
  for (Task* task : batch) {
    remove_waiting(*task);
    task->state = Task::State::running;
    task->started = now;
  }
  std::erase_if(queue, [](const Task* task) { return task->state == Task::State::running; });
  return batch;
}

// ---- queries ----

void BatchSchedule::count_depth(Effects& effects) {
  if (waiting_[0].plans == counted_depth_) return;
  counted_depth_ = waiting_[0].plans;
  effects.count(Metric::queue_depth, counted_depth_);
}

std::string BatchSchedule::check_bounds(std::size_t again, std::size_t waiting) const {
  std::size_t queued = 0;
  for (const Queue* queue : queues()) queued += queue->size();
  return excess("waiting plans", waiting_[0].plans, config_.queue_max + again) +
         excess("waiting background plans", waiting_[1].plans, config_.background_queue_max + again) +
         excess("queued plans", queued, waiting) +
         excess("begun background plans", background_begun_, config_.background_max);
}

std::string excess(const char* what, std::size_t is, std::size_t most) {
  if (is <= most) return "";
  return std::string(what) + " are " + std::to_string(is) + "; expected at most " + std::to_string(most) +
         ". ";
}

}  // namespace troupe::actors
