#pragma once
// Whether a core was looked after all the time. One whose process was stopped or starved finds, when it goes
// on, that nobody has been heard of for long; but what the others said lies unread in its queue. So who
// judges others by their silence first takes off the time for which it was deaf itself.
#include "runtime/actor/core.h"

namespace troupe {

class Deafness {
 public:
  // Between two steps of a core that is looked after, since it has a timer that often.
  explicit Deafness(Duration longest_rest) : longest_rest_(longest_rest) {}

  // At each step: how long its core was deaf before it; 0 unless that rest was more than twice the longest.
  Duration before(Instant now) {
    const Duration rest = looked_ ? now - last_ : Duration{};
    last_ = now;
    looked_ = true;
    if (rest.us <= 2 * longest_rest_.us) return {};
    return {rest.us - longest_rest_.us};
  }

 private:
  Duration longest_rest_;
  Instant last_;
  bool looked_ = false;
};

}  // namespace troupe
