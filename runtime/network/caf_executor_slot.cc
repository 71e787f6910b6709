#include "runtime/network/caf_executor_slot.h"

#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {
namespace {

constexpr int turns_max = 16;             // steps of actors in a row
constexpr std::size_t messages_max = 16;  // messages of one actor per step

}  // namespace

void CafExecutorSlot::run_ready() {
  for (int turn = 0; !ready_.empty(); ++turn) {
    caf::resumable* const actor = ready_.front();
    ready_.pop_front();
    if (turn >= turns_max) {
      system().scheduler().enqueue(actor);
    } else if (actor->resume(this, messages_max) == caf::resumable::resume_later) {
      ready_.push_back(actor);
    } else {
      caf::intrusive_ptr_release(actor);
    }
  }
}

}  // namespace troupe
