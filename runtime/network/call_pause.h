#pragma once
// How long one waits before one calls again: twice as long each time, up to a bound, and from the beginning
// again when the last call was answered.
#include <algorithm>
#include <chrono>
#include <string_view>

namespace troupe::link {

class CallPause {
 public:
  using Time = std::chrono::milliseconds;
  CallPause(Time least, Time most) : least_(least), most_(most), next_(least) {}

  // After a call that ended with this fault ("": with none), in which the other had joined, or not.
  Time after(std::string_view fault, bool joined) {
    const Time now = fault.empty() || joined ? least_ : next_;
    next_ = std::min(2 * now, most_);
    return now;
  }

 private:
  const Time least_, most_;
  Time next_;
};

}  // namespace troupe::link
