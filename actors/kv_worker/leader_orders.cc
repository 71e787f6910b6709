// Recognises orders of former leaders by their fencing tokens, and reports them.
#include "actors/kv_worker/leader_orders.h"

#include <algorithm>

namespace troupe::actors {

void LeaderOrders::on_beat(const LeaderBeat& beat) {
  token_ = std::max(token_, beat.token);
  heard_ = true;
}

bool LeaderOrders::obeys(Address from, const Forget& forget, Effects& effects) {
  const bool is_stale = forget.token < token_;
  // Token 0 means that a router sent it here directly; routers must ask a cache-meta instead.
  if (forget.token == 0 || is_stale) {
    effects.count(Metric::protocol_errors);
    effects.log(LogLevel::warning, "stale_leader",
                {{"node", from.node}, {"token", forget.token}, {"expected", token_}});
    return false;
  }
  token_ = std::max(token_, forget.token);
  return heard_;
}

}  // namespace troupe::actors
