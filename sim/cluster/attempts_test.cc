#include "sim/cluster/attempts.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr NodeId router = 1, first = 5, second = 6, third = 7;

struct Bench {
  Violations violations;
  Attempts attempts{{200'000}, violations};

  Bench() { hear(0, TimerFired{start_timer}); }
  void hear(std::int64_t us, const Event& event) { attempts.on_event({us}, {router, Role::router}, event); }
  void hear_from(std::int64_t us, NodeId worker, Message message) {
    hear(us, Received{{worker, Role::inference_worker}, std::move(message)});
  }
  void beat(std::int64_t us, NodeId worker, Incarnation incarnation = 1, std::uint64_t sequence = 0) {
    hear_from(us, worker, Heartbeat{.incarnation = incarnation, .sequence = sequence});
  }
  void refuse(NodeId worker, RequestId id, const std::string& code) {
    hear_from(1, worker, Refused{id, {RefusalKind::unavailable, code}});
  }
  void send(std::int64_t us, NodeId worker, RequestId id, bool alone = false, Token user = 10) {
    attempts.on_send({us}, {router, Role::router}, {worker, Role::inference_worker}, plan(id, alone, user));
  }
  static Execute plan(RequestId id, bool alone, Token user) {
    Execute execute{.id = id, .budget_us = 2'000'000, .alone = alone};
    execute.plan.segments = {{SegmentKind::system, {1}}, {SegmentKind::user, {5, user}}};
    execute.plan.readouts = {{1, 0, {7, 8}}};
    return execute;
  }
  bool lost_twice(std::int64_t us, Token user = 10) {
    const std::vector<Token> tokens{5, user}, rows{7, 8};
    return attempts.lost_twice({us}, {content_of(tokens, rows)});
  }
};

}  // namespace

TEST_CASE("attempts: two are allowed, a third only after a refusal at no cost, a fifth never") {
  Bench b;
  b.send(1, first, 100);
  b.send(2, second, 100);
  CHECK(b.violations.count() == 0);
  b.send(3, third, 100);
  CHECK(b.violations.count() == 1);
  b.send(1, first, 101);
  for (const NodeId node : {first, second, third, NodeId{8}}) {
    b.refuse(node, 101, node == second ? "wrong_model" : "draining");
    b.refuse(node, 101, "draining");  // duplicated message
    b.send(2, node + 1, 101);
    CHECK(b.violations.count() == (node == 8 ? 2 : 1));
  }
  b.send(1, first, 102);
  b.refuse(first, 102, "overloaded");
  b.send(2, second, 102);
  b.send(2, third, 102);
  CHECK(b.violations.count() == 3);
}

TEST_CASE("attempts: a verification is no attempt, and its lost worker is a loss of its content") {
  Bench b;
  for (const NodeId node : {first, second}) b.beat(0, node);
  for (const RequestId id : {100, 101, 102}) {
    Execute again = Bench::plan(id, false, 10);
    again.priority = Priority::background;
    b.attempts.on_send({1}, {router, Role::router}, {first, Role::inference_worker}, again);
  }
  CHECK(b.attempts.sent(router) == 0);
  CHECK(b.violations.count() == 0);
  b.hear(2, PeerLost{first});
  b.send(3, second, 103, true);
  CHECK_FALSE(b.lost_twice(4));
  b.hear(5, PeerLost{second});
  CHECK(b.lost_twice(6));
  CHECK(b.violations.count() == 0);
}

TEST_CASE("attempts: a plan may be sent again only after the running one is late or refused") {
  Bench b;
  for (const NodeId node : {first, second, third}) b.beat(0, node);
  b.send(1, first, 100);
  b.beat(800'000, first);
  b.send(840'000, second, 100);  // of two seconds: within the tolerance for a slow clock
  CHECK(b.violations.count() == 0);
  b.send(1, first, 101);
  b.refuse(first, 101, "overloaded");
  b.send(2, second, 101);
  CHECK(b.violations.count() == 0);
  b.send(1, first, 102);
  b.send(2, second, 102);
  CHECK(b.violations.count() == 1);
  CHECK(b.violations.kept()[0].promise == 20);
  b.send(1, NodeId{9}, 103);  // without heartbeat: only the router knows when it considered the worker lost
  b.send(2, second, 103);
  CHECK(b.violations.count() == 1);
}

TEST_CASE(
    "attempts: only attempts with a cost are retries; a new process starts at zero; background plans do not "
    "count") {
  Bench b;
  b.hear(1, Received{{router, Role::server}, RankRequest{}});
  b.send(1, first, 100);
  b.send(2, second, 100);
  b.send(1, first, 101);
  b.refuse(first, 101, "draining");
  b.send(2, second, 101);
  b.send(3, third, 101);
  Execute ahead = Bench::plan(102, false, 10);
  ahead.priority = Priority::background;
  for (int i = 0; i < 5; ++i)
    b.attempts.on_send({4}, {router, Role::router}, {first, Role::inference_worker}, ahead);
  CHECK(b.violations.count() == 0);
  CHECK(b.attempts.retries(router) == 2);
  CHECK(b.attempts.sent(router) == 5);
  CHECK(b.attempts.received(router) == 1);
  b.hear(9, TimerFired{start_timer});
  CHECK(b.attempts.retries(router) + b.attempts.sent(router) + b.attempts.received(router) == 0);
}

TEST_CASE("attempts: a content is lost twice if two workers were lost with it, one while it ran alone") {
  Bench b;
  b.send(1, first, 100);
  b.send(1, first, 101);  // the same content: one loss
  b.hear(2, PeerLost{first});
  b.hear(3, PeerLost{first});
  CHECK_FALSE(b.lost_twice(4));
  b.send(5, second, 100, true);
  CHECK_FALSE(b.lost_twice(6));
  b.hear(7, PeerLost{second});
  CHECK(b.lost_twice(8));
  CHECK_FALSE(b.lost_twice(8, 11));
  b.send(9, first, 102, false, 11);
  b.hear(10, PeerLost{first});
  b.send(11, second, 102, false, 11);
  b.hear(12, PeerLost{second});
  CHECK_FALSE(b.lost_twice(13, 11));
}

TEST_CASE(
    "attempts: a silence is a loss at the time it could be noticed, however late the next message comes") {
  Bench b;
  b.beat(0, first);
  b.send(1, first, 100);
  b.beat(9'000'000, first);  // long after the silence became a loss
  b.send(9'000'001, second, 100, true);
  b.hear(9'000'002, PeerLost{second});
  CHECK(b.lost_twice(9'000'003));
}

TEST_CASE("attempts: an overtaken heartbeat does not end a silence") {
  Bench b;
  b.beat(0, first, 1, 2);
  b.beat(0, second, 1, 1);
  b.send(1, first, 100, true);
  b.send(1, second, 101);
  b.beat(450'000, first, 1, 1);
  CHECK(b.lost_twice(500'001));
}

TEST_CASE("attempts: a late PeerLost of a silent worker is not a second loss") {
  Bench b;
  b.beat(0, first);
  b.send(1, first, 100);
  b.hear(9'000'000, PeerLost{first});  // long after the silence became a loss
  b.send(9'000'001, second, 100, true);
  b.hear(9'000'002, PeerLost{second});
  CHECK(b.lost_twice(9'000'003));
}

TEST_CASE("attempts: silence and a new process are losses; an answer or the request's end is none") {
  Bench b;
  for (const NodeId node : {first, second, third}) b.beat(0, node);
  b.send(1, first, 100);
  b.beat(100'000, first, 2);
  b.send(100'001, second, 100, true);
  CHECK_FALSE(b.lost_twice(500'000));
  CHECK(b.lost_twice(500'001));  // after two and a half heartbeats
  b.beat(100'000, third);
  b.send(100'001, third, 101, true, 11);
  b.hear_from(100'002, third, Executed{.id = 101});
  b.beat(900'000, third);
  b.send(900'001, third, 102, true, 11);
  for (std::int64_t us = 1'300'000; us < 3'500'000; us += 400'000) b.beat(us, third);
  b.hear(3'500'000, PeerLost{third});  // long after the silence became a loss
  b.send(3'500'001, first, 103, false, 11);
  b.hear(3'500'002, PeerLost{first});
  CHECK_FALSE(b.lost_twice(3'500'003, 11));
}
