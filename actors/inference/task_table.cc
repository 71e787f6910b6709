// Keeps the plans at this worker and gives each its one outcome.
#include "actors/inference/task_table.h"

#include <algorithm>

namespace troupe::actors {
namespace {

// Bounds a budget from a message, so that adding it to a time does not overflow.
constexpr std::int64_t budget_us_max = 3'600'000'000;

// Logs one step of a request whose client records a trace.
void log_hop(const Task& task, const char* event, std::vector<LogField> fields, Effects& effects) {
  const Execute& execute = task.execute;
  fields.insert(fields.begin(),
                {{"plan", task.serial}, {"request", execute.id}, {"trace_id", trace_id(execute.trace)}});
  effects.log(LogLevel::debug, event, std::move(fields));
}

}  // namespace

bool TaskTable::knows(Address from, RequestId id) const {
  return serials_.contains({from, id}) || recent_.contains(from, id);
}

Task& TaskTable::accept(Instant now, Serial serial, Address from, Execute&& execute) {
  ++accepted_;
  serials_[{from, execute.id}] = serial;
  Task& task = tasks_[serial];
  task.serial = serial;
  task.from = from;
  task.execute = std::move(execute);
  task.received = now;
  task.deadline = now + Duration{std::min(task.execute.budget_us, budget_us_max)};
  return task;
}

void TaskTable::refuse_new(Address from, RequestId id, Refusal refusal, Effects& effects) {
  recent_.add(from, id);
  effects.send(from, Refused{id, std::move(refusal)});
}

Task* TaskTable::find(Serial serial) {
  const auto at = tasks_.find(serial);
  return at == tasks_.end() ? nullptr : &at->second;
}

Task* TaskTable::find(Address from, RequestId id) {
  const auto at = serials_.find({from, id});
  return at == serials_.end() ? nullptr : find(at->second);
}

std::vector<Task*> TaskTable::waiting(const std::function<bool(const Task&)>& matches) {
  std::vector<Task*> found;
  for (auto& [serial, task] : tasks_)
    if (task.state != Task::State::running && matches(task)) found.push_back(&task);
  return found;
}

void TaskTable::release(Task& task, std::vector<BlockOutcome> outcomes, Effects& effects) const {
  if (task.state == Task::State::acquiring || task.blocks.holds_grants())
    effects.send(kv_worker_, ReleaseBlocks{task.serial, std::move(outcomes)});
  task.blocks.release();
}

void TaskTable::answer(Task& task, Executed executed, std::vector<BlockOutcome> outcomes, Effects& effects) {
  if (task.execute.trace.sampled)
    log_hop(task, "plan_executed",
            {{"blocks_us", executed.blocks_us},
             {"pull_us", executed.pull_us},
             {"queue_us", executed.queue_us},
             {"compute_us", executed.compute_us}},
            effects);
  effects.send(task.from, std::move(executed));
  ++executed_;
  ++answered_;
  release(task, std::move(outcomes), effects);
  end(task);
}

void TaskTable::refuse(Task& task, Refusal refusal, Effects& effects) {
  if (task.execute.trace.sampled)
    log_hop(task, "plan_refused", {{"code", refusal.code}, {"why", refusal.what}}, effects);
  effects.send(task.from, Refused{task.execute.id, std::move(refusal)});
  ++answered_;
  release(task, {}, effects);
  end(task);
}

void TaskTable::drop(Task& task, Effects& effects) {
  release(task, {}, effects);
  end(task);
}

void TaskTable::end(const Task& task) {
  const auto at = tasks_.find(task.serial);
  recent_.add(task.from, task.execute.id);
  serials_.erase({task.from, task.execute.id});
  tasks_.erase(at);
}

// ---- queries ----

std::size_t TaskTable::count(Task::State state) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(tasks_, [state](const auto& entry) { return entry.second.state == state; }));
}

std::size_t TaskTable::count_again() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(tasks_, [](const auto& entry) { return entry.second.again; }));
}

bool TaskTable::uses_model(const std::string& model) const {
  return std::ranges::any_of(tasks_,
                             [&](const auto& entry) { return entry.second.execute.model_version == model; });
}

std::string TaskTable::check_outcomes() const {
  if (accepted_ == answered_ + unanswered_ + tasks_.size()) return "";
  return std::to_string(accepted_) + " plans were accepted, " + std::to_string(answered_) + " answered, " +
         std::to_string(unanswered_) + " lost their router, " + std::to_string(tasks_.size()) + " are here";
}

}  // namespace troupe::actors
