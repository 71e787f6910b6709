// Keeps the timers of one core in the order of their times. Times that lie close together share
// one wake-up, because each wake-up costs a thread switch.
#include "runtime/network/timer_queue.h"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

constexpr std::int64_t grain_us_max = 8192;

// Rounds times that differ by less than the grain, a power of two, up to the same time.
Instant rounded_up(Instant at, Duration ahead) {
  const auto slack = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ahead.us / 16, 1, grain_us_max));
  const auto grain = static_cast<std::int64_t>(std::bit_floor(slack));
  return {(at.us + grain - 1) & -grain};
}

}  // namespace

void TimerQueue::add(Instant now, std::uint64_t timer, Instant at) {
  const Instant wake = rounded_up(at, at - now);
  timers_.push({at, wake, added_++, timer});
  ++wakes_[wake];
}

std::optional<std::uint64_t> TimerQueue::take_due(Instant now) {
  if (timers_.empty() || timers_.top().at > now) return std::nullopt;
  const Timer due = timers_.top();
  timers_.pop();
  const auto wake = wakes_.find(due.wake);
  if (--wake->second == 0) wakes_.erase(wake);
  return due.timer;
}

std::optional<Instant> TimerQueue::wake_at() const {
  if (wakes_.empty()) return std::nullopt;
  return wakes_.begin()->first;
}

}  // namespace troupe
