#include "actors/kv_worker/leader_orders.h"

#include "actors/testing/kv_worker_parts.h"

namespace troupe::actors {
namespace leader_orders_test {

using namespace kv_worker_test;

Forget forget(std::uint64_t token) { return {SegmentKind::item, "item 1", token}; }

TEST_CASE("leader orders: a worker obeys no leader before it has heard one, and then no former one") {
  LeaderOrders leader;
  Effects effects;
  CHECK_FALSE(leader.obeys(meta, forget(5), effects));
  leader.on_beat({4});
  CHECK(leader.token() == 5);
  CHECK(leader.obeys(meta, forget(5), effects));
  CHECK(effects.list.empty());
  CHECK_FALSE(leader.obeys(meta, forget(4), effects));
  CHECK(effects.list.size() == 2);  // counted and logged
  leader.on_beat({7});
  CHECK_FALSE(leader.obeys(meta, forget(6), effects));
}

TEST_CASE("leader orders: an order without a token is refused whoever leads") {
  LeaderOrders leader;
  Effects effects;
  leader.on_beat({0});
  CHECK_FALSE(leader.obeys(meta, forget(0), effects));
  CHECK(effects.list.size() == 2);
}

}  // namespace leader_orders_test
}  // namespace troupe::actors
