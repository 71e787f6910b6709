#pragma once
// Slowdown of a simulated device for a limited time. Work that is still running at the end of the slowdown
// continues at its usual speed, so a fault has no effect after its end.
#include <cstdint>
#include <limits>

#include "runtime/actor/core.h"

namespace troupe::sim {

struct Slowness {
  double factor = 1;  // at least 1
  Instant until{std::numeric_limits<std::int64_t>::max()};

  // Returns the duration of work that begins at `now` and usually takes `usual`.
  Duration stretch(Instant now, Duration usual) const {
    const double slow_us = static_cast<double>(usual.us) * factor;
    const auto left_us = static_cast<double>((until - now).us);
    if (slow_us <= left_us || left_us < 0) return {static_cast<std::int64_t>(slow_us)};
    const double done_us = left_us / factor;
    return {static_cast<std::int64_t>(left_us + static_cast<double>(usual.us) - done_us)};
  }
};

}  // namespace troupe::sim
