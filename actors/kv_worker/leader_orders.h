#pragma once
// Decides which orders of a leading cache-meta the KV-cache worker obeys. Leaders are known by
// their fencing tokens: an order with a lower token than one seen before comes from a former leader
// (promise 5).
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::actors {

class LeaderOrders {
 public:
  void on_beat(const LeaderBeat& beat);
  // A worker that has just started knows no token and might obey a former leader's late message. So
  // it obeys no leader before a LeaderBeat. A block that is not forgotten only takes pages until it
  // is evicted: blocks are named by their content, so no request asks for it.
  bool obeys(Address from, const Forget& forget, Effects& effects);
  std::uint64_t token() const { return token_; }

 private:
  std::uint64_t token_ = 0;  // highest token seen
  bool heard_ = false;       // true once a LeaderBeat arrived since the start
};

}  // namespace troupe::actors
