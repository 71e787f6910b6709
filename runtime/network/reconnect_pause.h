#pragma once
// Pause before the next attempt to connect. It doubles with each attempt up to a bound, and starts
// again once the peer has joined.
#include <algorithm>
#include <chrono>
#include <string_view>

namespace troupe::link {

class ReconnectPause {
 public:
  using Time = std::chrono::milliseconds;
  ReconnectPause(Time least, Time most) : least_(least), most_(most), next_(least) {}

  // Returns the pause after a call that ended with this fault ("" = none). `joined`: the peer
  // joined during the call.
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
