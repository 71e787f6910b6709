// Runs the actors that a finished job or a message from another node has woken, on the thread that
// ran the job or read the message. CAF (C++ Actor Framework) would wake another thread for them, which
// costs more than most steps. After a bounded number of turns the rest goes to CAF's threads, because
// the thread's own work waits.
#include "runtime/network/caf_executor_slot.h"

#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {
namespace {

constexpr int turns_max = 16;  // before the rest goes to CAF's threads

}  // namespace

void CafExecutorSlot::run_ready(std::size_t messages_max) {
  for (int turn = 0; !ready_.empty(); ++turn) {
    caf::resumable* const actor = ready_.front();
    ready_.pop_front();
    if (turn >= turns_max) {
      system().scheduler().enqueue(actor);
    } else if (actor->resume(this, messages_max) == caf::resumable::resume_later) {
      ready_.push_back(actor);
    } else {
      caf::intrusive_ptr_release(actor);  // the reference that the queue held
    }
  }
}

}  // namespace troupe
