// Tests what a user's home hears of requests elsewhere, and where Algorithm 1 sends a user's next
// request.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_homes_test {

// Three idle workers; the index says where users' blocks are, which decides where requests go.
struct Homes : RouterBench {
  RequestId last = 0;
  std::int64_t us = 0;

  explicit Homes(Routing routing = {}) : RouterBench(config(routing)) {
    for (const NodeId node : {1U, 2U, 3U}) beat(0, node, beat_of(5));
    probe.receive(0, meta, LeaderBeat{1});
  }
  static RouterConfig config(Routing routing) {
    RouterConfig c = cluster_config({1, 2, 3});
    c.routing = routing;
    return c;
  }
  // Returns the user's home; the request then waits for the index, which knows no blocks.
  NodeId ask(const std::string& user = "ann", const std::string& policy = "user") {
    rank(++us, ++last, policy, 100'000, user);
    find(++us);
    return asked.prefer.front();
  }
  Retention go() {
    index(++us, IndexAnswer{{}, {0, 0}, {}});
    return plan().retention;
  }
  void end() { execute_at(++us, node); }
  void wait_at(NodeId at, double operations) {
    Heartbeat heartbeat = beat_of(5);
    heartbeat.operations_waiting = operations;
    beat(++us, at, heartbeat);
  }
  // Sends a user's request whose home is too busy for it; returns the name of the user's block.
  BlockName send_away(const std::string& user = "ann") {
    const NodeId home = ask(user);
    wait_at(home, 500);
    CHECK(go().remote_home);
    REQUIRE(node != home);
    BlockName name;
    for (std::size_t i = 0; i < plan().blocks.size(); ++i)
      if (plan().plan.segments[i].kind == SegmentKind::user) name = *plan().blocks[i].name;
    end();
    wait_at(home, 0);
    return name;
  }
};

TEST_CASE("uses elsewhere: a home hears once, with its next plan, what the user's blocks would have saved") {
  Homes h;
  const BlockName block = h.send_away();
  const NodeId home = h.ask();
  const Retention reported = h.go();
  REQUIRE(h.node == home);
  CHECK_FALSE(reported.remote_home);
  REQUIRE(reported.elsewhere.size() == 1);
  CHECK(reported.elsewhere[0].name == block);
  CHECK(reported.elsewhere[0].tokens == 21);  // including the tokens before the history
  CHECK(reported.elsewhere[0].times == 1);
  CHECK(reported.elsewhere[0].spared_us == 21);
  h.end();
  h.ask();
  CHECK(h.go().elsewhere.empty());
}

TEST_CASE("uses elsewhere: two requests elsewhere are two uses, a second attempt is not") {
  Homes h;
  h.send_away();
  const NodeId home = h.ask();
  h.wait_at(home, 500);
  h.go();
  const NodeId first = h.node;
  h.refuse_at(++h.us, first, RefusalKind::unavailable, "overloaded");
  REQUIRE(h.node != first);
  REQUIRE(h.node != home);
  CHECK(h.plan().retention.remote_home);
  h.end();
  h.wait_at(home, 0);
  h.ask();
  CHECK(h.go().elsewhere.at(0).times == 2);
}

TEST_CASE(
    "uses elsewhere: a retry at home counts there once, and a user refused there counts in the report") {
  Homes h;
  const NodeId home = h.ask();
  h.wait_at(home, 500);
  CHECK(h.go().remote_home);
  h.wait_at(home, 0);
  h.refuse_at(++h.us, h.node, RefusalKind::unavailable, "overloaded");
  if (h.node == home) CHECK(h.plan().retention.remote_home);
  h.end();
  h.ask("ann");
  const Retention at_home = h.go();
  REQUIRE(h.node == home);
  CHECK_FALSE(at_home.remote_home);
  h.refuse_at(++h.us, home, RefusalKind::unavailable, "overloaded");
  REQUIRE(h.node != home);
  CHECK(h.plan().retention.remote_home);
  h.end();
  h.ask();
  CHECK(h.go().elsewhere.size() == 1);
}

TEST_CASE("uses elsewhere: a report waits for a plan to the home that asks for blocks") {
  Homes h;
  h.send_away();
  const NodeId home = h.ask();
  const Retention reported = h.go();
  REQUIRE(h.node == home);
  CHECK(reported.elsewhere.size() == 1);
  h.end();
  h.send_away();
  for (const NodeId node : {1U, 2U, 3U}) h.wait_at(node, node == home ? 0 : 500);
  h.rank(++h.us, ++h.last, "recompute", 100'000, "ann");
  h.find(++h.us);
  CHECK(h.plan().retention.elsewhere.empty());
  REQUIRE(h.node == home);
  h.end();
  h.ask();
  CHECK(h.go().elsewhere.size() == 1);
}

TEST_CASE("uses elsewhere: a lost home gets no reports") {
  Homes h;
  const NodeId home = h.ask();
  h.lose(++h.us, home);
  CHECK(h.go().remote_home);
  h.end();
  h.wait_at(home, 0);
  h.ask();
  CHECK(h.go().elsewhere.empty());
}

TEST_CASE("Algorithm 1: a user goes to the last worker, though home would finish slightly sooner") {
  for (const bool joint : {false, true}) {
    CAPTURE(joint);
    Homes h(joint ? Routing{Routing::By::joint} : Routing{});
    const NodeId home = h.ask("ann", "item");
    h.wait_at(home, 500);
    h.go();
    const NodeId away = h.node;
    REQUIRE(away != home);
    h.end();
    h.wait_at(home, 0);
    h.wait_at(away, 4);  // part of it is done by then: slightly later than at home
    h.ask("ann", "item");
    h.go();
    CHECK(h.node == (joint ? away : home));
  }
}

}  // namespace router_homes_test
}  // namespace troupe::router
