#pragma once
// The plans at this worker. Each accepted plan has one outcome, however often it arrives: it is
// answered or refused, or dropped because its router is lost. Its blocks are released with it.
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/inference/task.h"
#include "runtime/actor/recent_ids.h"

namespace troupe::actors {

class TaskTable {
 public:
  // Remembers `recent_max` ended plans. `kv_worker` granted the blocks.
  TaskTable(Address kv_worker, std::size_t recent_max) : kv_worker_(kv_worker), recent_(recent_max) {}

  // Returns true if the plan is here, or had its outcome not long ago.
  bool knows(Address from, RequestId id) const;
  // The result is valid until its plan's outcome.
  Task& accept(Instant now, Serial serial, Address from, Execute&& execute);
  // Refuses a plan that was not accepted.
  void refuse_new(Address from, RequestId id, Refusal refusal, Effects& effects);
  Task* find(Serial serial);  // null: not here
  Task* find(Address from, RequestId id);
  // Returns the matching tasks that do not run, in order of arrival.
  std::vector<Task*> waiting(const std::function<bool(const Task&)>& matches);

  // Releases the plan's blocks. Grants that `outcomes` does not name were neither read to the end
  // nor written.
  void release(Task& task, std::vector<BlockOutcome> outcomes, Effects& effects) const;
  // Ends the plan and its task.
  void answer(Task& task, Executed executed, std::vector<BlockOutcome> outcomes, Effects& effects);
  void refuse(Task& task, Refusal refusal, Effects& effects);
  void drop(Task& task, Effects& effects);
  // Counts dropped plans of which no router waits for an answer.
  void note_unanswered(std::size_t plans) { unanswered_ += plans; }

  std::size_t size() const { return tasks_.size(); }
  std::size_t count(Task::State state) const;
  std::size_t count_again() const;
  std::size_t recent() const { return recent_.size(); }
  std::uint64_t executed() const { return executed_; }
  bool uses_model(const std::string& model) const;
  std::string check_outcomes() const;  // "" if every accepted plan has an outcome or is here

 private:
  void end(const Task& task);

  const Address kv_worker_;
  std::map<Serial, Task> tasks_;
  std::map<std::pair<Address, RequestId>, Serial> serials_;
  RecentIds recent_;  // plans that have had their outcome
  std::uint64_t accepted_ = 0, answered_ = 0, executed_ = 0;
  std::uint64_t unanswered_ = 0;  // plans dropped because their router was lost
};

}  // namespace troupe::actors
