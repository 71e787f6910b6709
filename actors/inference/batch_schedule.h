#pragma once
// Decides which waiting plans run together and when. A batch is formed when an executor slot is
// free, from ready plans, first come, first served, serving plans before background plans:
//   - It has at most ⌈ready / free slots⌉ plans, so that idle slots share the waiting plans (one
//     plan each while slots are idle).
//   - It has at most the work of `batch_tokens_max` newly computed tokens (BAT §5.1:
//     max-batched-tokens), but at least one plan.
//   - With a waiting quota (`batch_wait`) it begins when ready plans fill it, when no further plan may wait
//     (`queue_max`), when its first plan has been ready for that long, or when half of the time that a plan
//     can spare has passed, whatever comes first. Without one, no slot waits.
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
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "actors/inference/batch_times.h"
#include "actors/inference/running_batches.h"
#include "actors/inference/task.h"

namespace troupe::actors {

class BatchSchedule {
 public:
  BatchSchedule(const InferenceConfig& config, const BatchTimes& times) : config_(config), times_(times) {}

  // Returns true if a new serving plan would end too late behind those that wait and run.
  bool cannot_finish(const Execute& execute, const RunningBatches& running) const;

  // Adds a plan that arrived; all its tokens count as computed. A background plan waits until
  // next_background() returns it.
  void add(Task& task);
  // Queues a plan whose blocks are known, or whose blocks in flight have arrived.
  void make_ready(Instant now, Task& task);
  void run_again(Task& task);  // its batch failed: it runs next, alone
  void forget(Task& task);     // before its outcome, whatever its state

  // Returns a plan whose deadline has passed or that would end late; null: none. `plans` is the
  // number of all plans here: the only one is not late by the estimate alone.
  Task* find_late(Instant now, std::size_t plans) const;
  Task* find_late_serving(Instant now, std::size_t plans) const;
  // Returns the next batch for a free slot; empty: none. Its plans run from then on.
  std::vector<Task*> next_batch(Instant now, std::size_t slots_used);
  // Returns when the next batch of serving plans begins, if its slot is free: now at the latest if nothing
  // more is waited for. There must be a ready serving plan.
  Instant begins_at(Instant now, std::size_t slots_used) const;
  // Returns true if a batch of serving plans is ready and waits for more of them.
  bool waits_for_more(Instant now, std::size_t slots_used) const {
    return background_.empty() && !serving_.empty() && begins_at(now, slots_used) > now;
  }
  // Returns a batch of small plans to run beside the batches in the slots; empty: none.
  std::vector<Task*> next_batch_beside(Instant now);
  bool may_run_beside(const RunningBatches& running) const;
  bool waits_small() const { return waiting_small_.plans > 0; }  // a plan that fits a batch waits
  // Returns the next background plan that begins; null: none waits, or enough of them have begun.
  Task* next_background();

  const WaitingPlans& waiting(bool background) const { return waiting_[background]; }
  void count_depth(Effects& effects);  // of the serving queue, if it has changed
  // Returns the exceeded bounds; "" if there are none. `again`: plans that may run once more,
  // beyond the bounds; `waiting`: all plans that neither run nor wait for the KV-cache worker's answer.
  std::string check_bounds(std::size_t again, std::size_t waiting) const;

 private:
  using Queue = std::deque<Task*>;

  std::array<const Queue*, 4> queues() const {
    return {&serving_, &in_flight_, &background_, &background_arrived_};
  }
  void add_waiting(const Task& task);
  void remove_waiting(const Task& task);
  placement::Pass pass_of(const Task& task) const;
  bool is_late(Instant now, const Task& task, std::size_t plans) const;
  Task* find_late(Instant now, const Queue& queue, std::size_t plans) const;
  std::vector<Task*> take_batch(Instant now, Queue& queue, std::size_t at, std::size_t free_slots);
  // Estimates when `own` would end if it began after the work `ahead` and half of what runs now, in
  // that many slots.
  double done_us(const WaitingPlans& ahead, double running_us, std::uint32_t slots,
                 const placement::Pass& own) const;

  const InferenceConfig& config_;
  const BatchTimes& times_;
  Queue serving_, background_;          // ready plans
  Queue in_flight_;                     // ready except for blocks in flight
  Queue background_arrived_;            // background plans that have not begun
  std::uint32_t background_begun_ = 0;  // begun and not ended
  WaitingPlans waiting_[2];             // serving, background
  WaitingPlans waiting_small_;          // serving plans no larger than a batch
  std::uint32_t counted_depth_ = 0;     // as of the last metrics update
};

// Returns "" unless there are more than allowed.
std::string excess(const char* what, std::size_t is, std::size_t most);

}  // namespace troupe::actors
