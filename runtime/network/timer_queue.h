#pragma once
// The timers that one core waits for. They fire in the order of their times; the clock is asked to wake the
// core only at the times that wake_at() names, which are a little later than the timers and the same for
// many, because every waking costs a switch of threads: a timer is a hint, and most are deadlines of requests
// that are over by then. A timer that is due when its core steps anyway fires then.
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
  // The earliest that is due; of equal times the one that was set first.
  std::optional<std::uint64_t> take_due(Instant now);
  // When to look again: no timer is later by more than a sixteenth of what it was set ahead, or 8 ms.
  std::optional<Instant> wake_at() const;

 private:
  struct Timer {
    Instant at, wake;
    std::uint64_t order, timer;
    bool operator>(const Timer& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::map<Instant, std::uint32_t> wakes_;  // times to wake at, and how many timers want each
  std::uint64_t added_ = 0;
};

}  // namespace troupe
