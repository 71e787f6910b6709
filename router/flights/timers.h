#pragma once
// Numbers of the router's timers. A request's serial reserves four of them.
#include <cstdint>

namespace troupe::router {

// start_timer and precompute_timer have smaller numbers.
inline constexpr std::uint64_t beat_timer = 2, early_timer = 3;

enum class TimerKind : std::uint64_t { deadline, lookup, late };
constexpr std::uint64_t timer_of(std::uint64_t serial, TimerKind kind) {
  return serial * 4 + static_cast<std::uint64_t>(kind);
}
constexpr std::uint64_t serial_of(std::uint64_t timer) { return timer / 4; }
constexpr TimerKind kind_of(std::uint64_t timer) { return static_cast<TimerKind>(timer % 4); }

}  // namespace troupe::router
