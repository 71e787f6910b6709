#include "router/flights/plan_sender.h"

#include "router/testing/flights_test.h"

namespace troupe::router {
namespace plan_sender_test {

struct Bench : FlightBench {
  PullCost pull_cost{0.25};
  PlanSender sender{{}, workers, tenants, pull_cost};

  Execute send(Flight& flight, NodeId node, bool suspect = false) {
    sender.send(at(0), flight, option(flight, node), suspect);
    const auto plans = sent<Execute>();
    REQUIRE(plans.size() == 1);
    return plans[0];
  }
};

TEST_CASE("plan sender: the message has the flight's plan, and the attempt is late after half the time") {
  Bench b;
  Flight& flight = b.add();
  const Execute execute = b.send(flight, 2);
  CHECK(execute.id == flight.serial);
  CHECK(execute.plan == flight.plans.front().candidate.plan);
  CHECK(execute.budget_us == 1'000);
  CHECK_FALSE(execute.alone);
  REQUIRE(flight.attempts.size() == 1);
  CHECK(flight.attempts[0].ticket.node == 2);
  CHECK(flight.attempts[0].late_at == Instant{500});
  CHECK(b.send(flight, 1, true).alone);
  CHECK(b.sender.sent() == 2);
}

TEST_CASE("plan sender: a missing block is pulled from another holder while that is cheaper") {
  Bench b;
  Flight& flight = b.add();
  b.hold_block(flight, SegmentKind::item, {2});
  CHECK(b.send(flight, 1).blocks[0].at == 2);
  CHECK(b.send(flight, 2).blocks[0].at == 0);  // it is there
  b.pull_cost.note(1, 1'000'000, 1);
  CHECK(b.send(flight, 1).blocks[0].at == 0);
}

TEST_CASE("plan sender: a use elsewhere is counted once, and the home hears of it with its next plan") {
  Bench b;
  Flight& flight = b.add();
  b.hold_block(flight, SegmentKind::user, {});
  flight.workers = {1, 2};  // the first is the home
  CHECK(b.send(flight, 2).retention.remote_home);
  CHECK(b.sender.homes() == 1);
  b.send(flight, 2);
  Flight& next = b.add();
  b.hold_block(next, SegmentKind::user, {});
  const Retention retention = b.send(next, 1).retention;
  CHECK_FALSE(retention.remote_home);
  REQUIRE(retention.elsewhere.size() == 1);
  CHECK(retention.elsewhere[0].times == 1);
}

}  // namespace plan_sender_test
}  // namespace troupe::router
