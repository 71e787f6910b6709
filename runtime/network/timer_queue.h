#pragma once
// Timers of one core. They fire in the order of their times. The clock is asked to wake the core
// only at the times that wake_at() returns, which are a little later than the timers and shared by
// many of them, because every wake-up costs a thread switch. That is acceptable: a timer is a hint,
// and most are deadlines of requests that have ended by then. A timer that is due when its core
// steps anyway fires then.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "runtime/actor/core.h"

namespace troupe {

class TimerQueue {
 public:
  void add(Instant now, std::uint64_t timer, Instant at);
  // Removes and returns the earliest due timer; among equal times the one set first.
  std::optional<std::uint64_t> take_due(Instant now);
  // Returns the next time to wake the core. No timer is delayed by more than 8 ms or a sixteenth of
  // the time it was set ahead.
  std::optional<Instant> wake_at() const;

 private:
  struct Timer {
    Instant at, wake;
    std::uint64_t order, timer;
    bool operator>(const Timer& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::map<Instant, std::uint32_t> wakes_;  // wake times and the number of timers for each
  std::uint64_t added_ = 0;
};

}  // namespace troupe
