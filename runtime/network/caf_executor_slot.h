#pragma once
// Runs CAF actors on a thread that is not CAF's. An executor thread does the blocking jobs of a port:
// when a job ends, it runs the actors that the result woke, those that these woke, and so on. A thread
// that serves sockets does so with the actors that a message woke (inline_runs.h). CAF's thread pool
// would wake another thread for them, which costs more than most steps, while this thread would go
// to sleep. The number of turns is bounded, since the thread's own work waits: further actors go to
// the pool.
#include <caf/execution_unit.hpp>
#include <cstddef>
#include <deque>

namespace troupe {

class CafExecutorSlot final : public caf::execution_unit {
 public:
  explicit CafExecutorSlot(caf::actor_system& system) : caf::execution_unit(&system) {}

  void exec_later(caf::resumable* actor) override { ready_.push_back(actor); }
  bool is_idle() const { return ready_.empty(); }  // true if no actor waits to be run here
  // Runs them, and those that they wake, for at most 16 turns. A turn has up to `messages_max` messages.
  void run_ready(std::size_t messages_max = 16);

 private:
  std::deque<caf::resumable*> ready_;  // each holds a reference, released by whoever runs it
};

}  // namespace troupe
