#pragma once
// Detects stalls of a core's process. A process that was stopped or starved finds, when it resumes,
// that no peer has been heard for long, although their messages wait unread in its queue. A core
// that judges peers by their silence therefore first subtracts its own stall.
#include "runtime/actor/core.h"

namespace troupe {

class StallDetector {
 public:
  // `longest_gap`: period of the core's timer, hence the longest normal gap between two steps.
  explicit StallDetector(Duration longest_gap) : longest_gap_(longest_gap) {}

  // Call at each step. Returns the length of the stall before it; 0 unless the gap was more than
  // twice the longest normal one.
  Duration before(Instant now) {
    const Duration rest = looked_ ? now - last_ : Duration{};
    last_ = now;
    looked_ = true;
    if (rest.us <= 2 * longest_gap_.us) return {};
    return {rest.us - longest_gap_.us};
  }

 private:
  Duration longest_gap_;
  Instant last_;
  bool looked_ = false;
};

}  // namespace troupe
