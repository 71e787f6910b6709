#pragma once
// How slow something physical is for a while. What begins then goes on at its usual speed afterwards, so that
// a fault does not outlast its end.
#include <cstdint>
#include <limits>

#include "runtime/actor/core.h"

namespace troupe::sim {

struct Slowness {
  double factor = 1;  // at least 1
  Instant until{std::numeric_limits<std::int64_t>::max()};

  // How long something takes that begins now and usually takes so long.
  Duration stretch(Instant now, Duration usual) const {
    const double slow_us = static_cast<double>(usual.us) * factor;
    const auto left_us = static_cast<double>((until - now).us);
    if (slow_us <= left_us || left_us < 0) return {static_cast<std::int64_t>(slow_us)};
    const double done_us = left_us / factor;
    return {static_cast<std::int64_t>(left_us + static_cast<double>(usual.us) - done_us)};
  }
};

}  // namespace troupe::sim
