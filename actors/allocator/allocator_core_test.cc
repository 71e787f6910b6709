#include "actors/allocator/allocator_core.h"

#include <doctest/doctest.h>

#include "runtime/actor/core_probe.h"
#include "runtime/pages/pool_areas.h"

namespace troupe::actors {
namespace {

constexpr Address worker{1, Role::kv_worker}, door{1, Role::door};

struct Bench {
  AllocatorCore core{{.node = 1, .pages = 101, .shares = {0.25, rest_of_pages}, .retry = {100}}};
  CoreProbe probe{core};
  bool ready(std::int64_t us) {
    probe.receive(us, door, StatusRequest{9});
    return probe.sent<StatusReply>().at(0).ready;
  }
};

TEST_CASE("the item area is sized first and users get the rest") {
  Bench b;
  b.probe.start();
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{0, 1, {{25}, {76}}});
  CHECK(b.probe.recipients().at(0) == worker);
}

TEST_CASE("rows get their share, and lend none of it") {
  AllocatorCore core{{.node = 1, .pages = 100, .shares = {0.25, rest_of_pages, 0.2}, .retry = {100}}};
  CoreProbe probe{core};
  probe.start();
  REQUIRE(probe.sent<SetSplit>().size() == 1);
  CHECK(probe.sent<SetSplit>()[0] == SetSplit{0, 1, {{25}, {55}, {20, 20}}});
}

TEST_CASE("the split names the worker's incarnation as soon as a report has told it") {
  Bench b;
  b.probe.start();
  b.probe.receive(1, worker, PoolReport{70, 0});
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{70, 1, {{25}, {76}}});
}

TEST_CASE("the split is repeated until the worker reports it") {
  Bench b;
  b.probe.start();
  b.probe.run_until(250);
  CHECK(b.probe.sent<SetSplit>().size() == 2);
  CHECK_FALSE(b.ready(260));
  b.probe.receive(270, worker, PoolReport{70, 1, {{25, 3}, {76, 4}}});
  b.probe.run_until(1'000);
  CHECK(b.probe.sent<SetSplit>().empty());
  CHECK(b.ready(1'001));
}

TEST_CASE("a restarted worker is told again, once in a while, under its new name") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{70, 1});
  b.probe.run_until(100);
  b.probe.receive(500, worker, PoolReport{80, 0});
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0].incarnation == 80);
  b.probe.receive(501, worker, PoolReport{80, 0});  // told a moment ago: the retry timer runs
  CHECK(b.probe.sent<SetSplit>().empty());
  b.probe.run_until(600);
  CHECK(b.probe.sent<SetSplit>().size() == 1);
}

TEST_CASE("a late report of an earlier worker changes nothing") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{80, 1});
  b.probe.run_until(100);
  b.probe.receive(200, worker, PoolReport{70, 0});
  CHECK(b.probe.effects.list.empty());
  CHECK(b.ready(201));
}

TEST_CASE(
    "what areas have lent to each other is the split from then on, also for the worker's next process") {
  Bench b;
  b.probe.start();
  b.probe.receive(50, worker, PoolReport{70, 1, {{40, 30}, {61, 4}}});
  b.probe.run_until(100);
  b.probe.receive(200, worker, PoolReport{80, 0, {{25, 0}, {76, 0}}});  // not yet told: it says nothing
  REQUIRE(b.probe.sent<SetSplit>().size() == 1);
  CHECK(b.probe.sent<SetSplit>()[0] == SetSplit{80, 1, {{40}, {61}}});
}

TEST_CASE("another node's report and a message for somebody else are counted and ignored") {
  Bench b;
  b.probe.start();
  b.probe.receive(10, {2, Role::kv_worker}, PoolReport{70, 1});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  b.probe.receive(11, worker, BlocksFound{});
  CHECK(b.probe.counted(Metric::protocol_errors) == 1);
  CHECK_FALSE(b.ready(12));
}

}  // namespace
}  // namespace troupe::actors
