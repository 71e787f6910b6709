#pragma once
// Runs actors on the thread of a lane that has just finished a job: those that the job's result woke, those
// that these woke, and so on. Handing them to the pool would wake another thread, which costs more than most
// steps do, while this one would go to sleep. Bounded, for the lane's next job waits: what is ready after
// that many turns goes to the pool.
#include <caf/execution_unit.hpp>
#include <deque>

namespace troupe {

class CafLane final : public caf::execution_unit {
 public:
  explicit CafLane(caf::actor_system& system) : caf::execution_unit(&system) {}

  void exec_later(caf::resumable* actor) override { ready_.push_back(actor); }
  void run_ready();

 private:
  std::deque<caf::resumable*> ready_;  // each with a reference, which whoever runs it gives back
};

}  // namespace troupe
