// Tests of attempts, retries, strikes and admission.
#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace {

// Workers 1, 2 and 3; a request's plan runs at `first`.
struct Cluster : RouterBench {
  explicit Cluster(RouterConfig config = cluster_config({1, 2, 3})) : RouterBench(std::move(config)) {
    for (const NodeId node : core.workers().nodes()) beat(0, node, beat_of(5));
  }
  NodeId send_plan(std::int64_t us, RequestId id, std::int64_t budget = 0, const std::string& user = "ann") {
    send(us, id, budget, user);
    REQUIRE(plans() == 1);
    return node;
  }
};

TEST_CASE("attempts: a refusal that another worker may not share is retried there, once") {
  for (const char* code : {"overloaded", "device_failed"}) {
    Cluster c;
    const NodeId first = c.send_plan(0, 1);
    const Execute before = c.plan();
    c.refuse_at(10, first,
                std::string(code) == "overloaded" ? RefusalKind::unavailable : RefusalKind::internal, code);
    REQUIRE(c.plans() == 1);
    CHECK(c.node != first);
    CHECK(c.plan().plan.segments == before.plan.segments);
    CHECK(c.plan().budget_us == 990);
    c.refuse_at(20, c.node, RefusalKind::unavailable, "overloaded");
    CHECK(c.refused() == "unavailable overloaded");
    CHECK(c.core.retries() == 1);
  }
}

TEST_CASE(
    "attempts: a refusal that all workers share goes to the client, a worker's fault becomes unavailable") {
  struct Row {
    RefusalKind kind;
    const char *code, *refused;
  };
  for (const Row& row :
       {Row{RefusalKind::deadline_exceeded, "deadline_exceeded", "deadline_exceeded deadline_exceeded"},
        {RefusalKind::unprocessable, "bad_plan", "unprocessable bad_plan"},
        {RefusalKind::internal, "broken", "unavailable broken"},
        {RefusalKind::unsupported, "models_fixed", "unavailable models_fixed"}}) {
    Cluster c;
    const NodeId first = c.send_plan(0, 1);
    c.refuse_at(10, first, row.kind, row.code);
    CHECK(c.refused() == row.refused);
    CHECK(c.plans() == 0);
  }
}

TEST_CASE("attempts: a draining worker or one without the versions costs no retry, within four sends") {
  RouterConfig config = cluster_config({1, 2, 3, 4, 5, 6});
  config.retry_burst = 0;
  Cluster c(config);
  c.send_plan(0, 1);
  for (const char* code : {"draining", "wrong_model", "wrong_catalog"}) {
    c.refuse_at(10, c.node, RefusalKind::unavailable, code);
    REQUIRE(c.plans() == 1);
  }
  CHECK(c.core.retries() == 0);
  c.refuse_at(10, c.node, RefusalKind::unavailable, "draining");
  CHECK(c.refused() == "unavailable draining");
  CHECK(c.core.attempts() == 4);
}

TEST_CASE("attempts: without a retry left, the last refusal goes to the client") {
  RouterConfig config = cluster_config({1, 2, 3});
  config.retry_burst = 1;
  Cluster c(config);
  c.lose(1, c.send_plan(0, 1, 0, "ann"));
  CHECK(c.plans() == 1);
  c.send(2, 2, 0, "bob");
  c.refuse_at(3, c.node, RefusalKind::unavailable, "overloaded");
  CHECK(c.refused() == "unavailable overloaded");
  for (RequestId id = 3; id < 13; ++id) c.send(10, id, 0, "eve");  // ten more requests earn one retry
  c.refuse_at(11, c.node, RefusalKind::unavailable, "overloaded");
  CHECK(c.plans() == 1);
}

TEST_CASE("suspects: a request of a lost worker is retried alone, and other routers hear of it") {
  Cluster c;
  const NodeId first = c.send_plan(0, 1);
  CHECK_FALSE(c.plan().alone);
  c.lose(10, first);
  CHECK(c.plan().alone);
  CHECK(c.node != first);
  CHECK(c.probe.sent<Suspect>().at(0).strikes == 1);
  c.execute_at(20, c.node);
  CHECK(c.replies() == 1);
  c.send_plan(30, 2);  // it ran well, so it is no longer a suspect
  CHECK_FALSE(c.plan().alone);
}

TEST_CASE("suspects: silence and a new incarnation also count as losses") {
  Cluster silent;
  silent.probe.start();
  const NodeId first = silent.send_plan(0, 1, 10'000);
  silent.run_until(2'400);
  for (NodeId node : {1, 2, 3})
    if (node != first) silent.beat(2'500, node, beat_of(5));
  silent.run_until(3'000);
  CHECK(silent.plans() == 1);
  CHECK(silent.node != first);

  Cluster restarted;
  for (NodeId node : {1, 2, 3}) restarted.beat(0, node, beat_of(5));
  const NodeId second = restarted.send_plan(0, 1);
  restarted.beat(10, second, beat_of(5));
  CHECK(restarted.plans() == 0);
  restarted.beat(20, second, beat_of(6));
  CHECK(restarted.plans() == 1);
  CHECK(restarted.probe.sent<Suspect>().size() == 1);
}

TEST_CASE(
    "attempts: after half of its time a request is tried elsewhere without a strike, and the first answer "
    "wins") {
  Cluster c;
  const NodeId first = c.send_plan(0, 1);
  c.run_until(499);
  CHECK(c.plans() == 0);
  c.run_until(500);
  CHECK(c.plans() == 1);
  CHECK(c.node != first);
  CHECK_FALSE(c.plan().alone);
  const NodeId second = c.node;
  c.execute_at(600, first);
  CHECK(c.replies() == 1);
  CHECK(c.probe.sent<RankReply>()[0].node == first);
  c.execute_at(601, second);
  CHECK(c.probe.effects.list.empty());
}

TEST_CASE("attempts: a late attempt that fails leaves the request to the running one") {
  for (const char* code : {"overloaded", "draining"}) {  // also if another attempt would cost nothing
    Cluster c(cluster_config({1, 2, 3, 4}));
    const NodeId first = c.send_plan(0, 1);
    c.run_until(500);
    const NodeId second = c.node;
    c.refuse_at(510, first, RefusalKind::unavailable, code);
    CHECK(c.refused() == "");
    CHECK(c.plans() == 0);
    c.refuse_at(520, second, RefusalKind::unavailable, "busy");
    CHECK(c.refused() == "unavailable busy");
  }
}

TEST_CASE("attempts: a late attempt that no worker could take over still counts") {
  Cluster c(cluster_config({1}));
  c.send_plan(0, 1);
  c.run_until(500);
  CHECK(c.plans() == 0);
  c.refuse_at(510, 1, RefusalKind::unavailable, "overloaded");
  CHECK(c.refused() == "unavailable overloaded");
}

TEST_CASE("attempts: a plan too large for a worker is tried only where more of its blocks are") {
  for (const bool warmer : {true, false}) {
    Cluster c;
    c.lose(1, 2), c.lose(1, 3);
    c.rank(1, 1, "item");
    c.find(2);
    c.index(3, IndexAnswer{{}, {1, 1}, {2, 2}});  // held by a worker that is lost
    REQUIRE(c.plans() == 1);
    REQUIRE(c.node == 1);
    c.beat(4, 3, beat_of(5));
    if (warmer) c.beat(4, 2, beat_of(5));
    c.refuse_at(5, 1, RefusalKind::unprocessable, "too_large");
    CHECK(c.plans() == (warmer ? 1 : 0));
    if (warmer) CHECK(c.node == 2);
    if (warmer) c.refuse_at(6, 2, RefusalKind::unprocessable, "too_large");
    CHECK(c.refused() == "unprocessable too_large");
  }
}

TEST_CASE("attempts: an invalid answer is retried at another worker, once per worker that gave it") {
  RouterConfig config = cluster_config({1, 2, 3});
  config.attempts_max = 3;
  Cluster c(config);
  const NodeId first = c.send_plan(0, 1);
  c.answer_at(10, first, c.answer({1}));
  CHECK(c.plans() == 1);
  CHECK(c.node != first);
  c.answer_at(11, first, c.answer({1}));  // a repeated answer
  CHECK(c.probe.effects.list.empty());
  Executed other = c.answer({1, 2});
  other.model_version = "model 0";
  c.answer_at(20, c.node, other);
  c.answer_at(21, c.node, other);
  CHECK(c.refused() == "unavailable bad_model_output");
}

TEST_CASE("suspects: a request that killed two workers is refused, and its like runs alone after the first") {
  Cluster c;
  const NodeId first = c.send_plan(0, 1);
  c.lose(10, first);
  const NodeId second = c.node;
  c.send_plan(11, 2);  // the same content
  CHECK(c.plan().alone);
  CHECK(c.node != first);
  c.lose(20, second);
  CHECK(c.probe.sent<Suspect>().at(0).strikes == 2);
  const auto refusals = c.probe.sent<Refused>();
  REQUIRE_FALSE(refusals.empty());
  CHECK(refusals[0].refusal.code == "poison");
  CHECK(refusals[0].refusal.kind == RefusalKind::unprocessable);
  c.rank(30, 3, "recompute");
  c.find(31);
  CHECK(c.refused() == "unprocessable poison");
  c.send(32, 4, 0, "bob");
  CHECK(c.plans() == 1);
}

TEST_CASE("suspects: a worker heard again only lost its connection, and each router takes strikes back") {
  const auto lose_twice = [](Cluster& c) {
    const NodeId first = c.send_plan(0, 1);
    c.lose(10, first);
    c.lose(20, c.node);
    REQUIRE(c.refused() == "unprocessable poison");
    return std::pair(first, c.node);
  };
  Cluster alive, reported;
  const auto [one, other] = lose_twice(alive);
  for (const Suspect& suspect : alive.probe.sent<Suspect>())
    reported.probe.receive(0, {8, Role::router}, suspect);
  REQUIRE(reported.probe.sent<Suspect>().empty());
  alive.beat(500, one, beat_of(5));  // perhaps already in flight before the loss
  CHECK(alive.probe.sent<Suspect>().empty());
  for (Cluster* cluster : {&alive, &reported}) {
    cluster->beats += 2;
    cluster->beat(1'010, one, beat_of(5));
    cluster->rank(1'015, 2, "recompute");
    CHECK(cluster->probe.sent<Execute>().empty());  // one strike is left
    cluster->beats += 2;
    cluster->beat(1'020, other, beat_of(5));
    cluster->send_plan(1'030, 3);
    CHECK_FALSE(cluster->plan().alone);
    CHECK(cluster->probe.sent<Suspect>().empty());  // each router hears the heartbeat itself
  }

  Cluster dead;
  const auto [first, second] = lose_twice(dead);
  dead.beat(1'010, first, beat_of(6));
  dead.beat(1'020, second, beat_of(6));
  dead.rank(1'030, 2, "recompute");
  dead.find(1'031);
  CHECK(dead.refused() == "unprocessable poison");
}

TEST_CASE("suspects: one loss is one strike, however many copies of the content ran there") {
  RouterConfig config = cluster_config({1});
  Cluster c(config);
  c.send_plan(0, 1);
  c.send_plan(1, 2);
  c.lose(10, 1);
  CHECK(c.probe.sent<Suspect>().size() == 1);
  CHECK(c.probe.sent<Suspect>()[0].strikes == 1);
  for (const Refused& refused : c.probe.sent<Refused>()) CHECK(refused.refusal.code == "worker_lost");
}

TEST_CASE("router: after its own stall it hears its workers before it judges their silence") {
  Cluster c;
  c.probe.start();
  for (NodeId node : {1, 2, 3}) c.beat(900, node, beat_of(5));
  c.send_plan(1'000, 1, 20'000);
  c.beat(9'000, 1, beat_of(5));  // the first heartbeat after the stall
  CHECK(c.plans() == 0);
  c.run_until(10'000);
  CHECK(c.plans() == 0);
  CHECK(c.core.workers().alive_count({10'000}) == 3);
}

TEST_CASE("router: a single node does not lose its own worker whose heartbeats wait for a CPU") {
  RouterConfig config = small_config();
  config.has_worker = true;
  RouterBench b(std::move(config));
  b.probe.start();
  b.beat(10, 1, beat_of(5));
  b.send(100, 1, 20'000);
  CHECK(b.plans() == 1);
  b.run_until(6'000);  // five heartbeats are missing, and the router's own timers fire
  CHECK(b.refused().empty());
  b.execute(6'100, {1, 2});
  CHECK(b.replies() == 1);
  b.send(6'200, 2, 20'000);
  CHECK(b.plans() == 1);
}

TEST_CASE("suspects: a loss noticed after the request's deadline is no strike") {
  Cluster c;
  c.send_plan(0, 1, 500);
  c.lose(500, c.node);
  CHECK(c.probe.sent<Suspect>().empty());
  CHECK(c.probe.sent<Refused>().empty());
  c.run_until(501);
  CHECK(c.refused() == "deadline_exceeded deadline_exceeded");
}

TEST_CASE("suspects: another router's suspect waits for its trial, then runs alone; its poison is refused") {
  Cluster c;
  const NodeId lost = c.send_plan(0, 1);
  c.lose(10, lost);
  const Suspect suspect = c.probe.sent<Suspect>().at(0);
  Cluster other;
  other.probe.start();
  other.probe.receive(0, {8, Role::router}, suspect);
  other.send(1, 1, 20'000);
  CHECK(other.plans() == 0);
  for (const NodeId node : {1, 2, 3})
    if (node != lost) other.beat(4'800, node, beat_of(5));
  other.run_until(6'000);  // no report about the trial arrived
  CHECK(other.plan().alone);

  Cluster cleared;
  cleared.probe.receive(0, {8, Role::router}, suspect);
  cleared.send(1, 1);
  cleared.probe.receive(2, {8, Role::router}, Suspect{suspect.fingerprint, 0, {}});
  CHECK(cleared.plans() == 1);
  CHECK_FALSE(cleared.plan().alone);

  Cluster poisoned;
  poisoned.probe.receive(0, {8, Role::router}, suspect);
  poisoned.send(1, 1);
  poisoned.probe.receive(2, {8, Role::router}, Suspect{suspect.fingerprint, 2, {}});
  CHECK(poisoned.refused() == "unprocessable poison");
  poisoned.rank(3, 2, "recompute");
  poisoned.find(4);
  CHECK(poisoned.refused() == "unprocessable poison");
}

TEST_CASE("admission: a request that no worker can begin in time is refused at once") {
  Cluster c(cluster_config({1}));
  Heartbeat busy = beat_of(5);
  busy.operations_waiting = 1'000;
  busy.us_per_operation = 1;
  c.beat(0, 1, busy);
  c.rank(1, 1, "recompute", 998);
  CHECK(c.refused() == "unavailable overloaded");
  c.rank(2, 2, "recompute", 1'001);
  CHECK(c.refused() == "");
  CHECK(c.probe.started<FindFeatures>().size() == 1);
}

TEST_CASE("pulls: their cost is measured, and expensive pulls stop until they may have become cheap") {
  Cluster c(cluster_config({1, 2}));
  c.probe.start();
  Heartbeat calm = beat_of(5), busy = beat_of(5);
  calm.us_per_operation = busy.us_per_operation = 10;
  busy.operations_waiting = 5'000;
  c.beat(0, 2, busy);
  c.beat(0, 1, calm);
  const auto ask = [&](std::int64_t us, RequestId id) {
    c.rank(us, id, "user", 900'000);
    c.find(us);
    c.index(us, IndexAnswer{{2}, {0, 0}, {}, 9, 0});
    REQUIRE(c.plans() == 1);
    return c.plan().blocks.at(1).at;
  };
  const auto answer = [&](std::int64_t us, std::int64_t pull_us, std::uint8_t reused) {
    Executed executed = c.answer({1, 2}, {0, reused, 0, 0, 0, 0});
    executed.pull_us = pull_us;
    c.answer_at(us, c.node, executed);
  };
  CHECK(ask(1, 1) == 2);
  CHECK(c.core.pull_share() == 0.25);
  answer(2, 100'000, 0);  // the pulled block was not used, so this says nothing about its cost
  CHECK(c.core.pull_share() == 0.25);
  CHECK(ask(3, 2) == 2);
  answer(4, 100'000, 1);  // 21 tokens: 210 us to compute
  CHECK(c.core.pull_share() == 1);
  CHECK(ask(5, 3) == 0);
  answer(6, 100'000, 1);  // nothing was pulled for the user's block
  REQUIRE(c.replies() == 1);
  CHECK(c.probe.sent<RankReply>()[0].timings.predicted > 10 * 28);  // all of user and items, not a quarter
  for (int i = 0; i < 1'000; ++i) {
    c.run_until(1'000 * (i + 1));
    c.probe.receive(1'000 * (i + 1), meta, LeaderBeat{1});
    c.beat(1'000 * (i + 1), 2, busy);
    c.beat(1'000 * (i + 1), 1, calm);
  }
  CHECK(c.core.pull_share() == doctest::Approx(0.25).epsilon(0.01));
  CHECK(ask(1'000'001, 4) == 2);
}

TEST_CASE("pulls: a fitted device gives the time to compute a block, and a fixed share is kept") {
  const auto share_after = [](RouterConfig config) {
    RouterBench b(std::move(config));
    b.rank(0, 1, "user");
    b.find(0);
    b.index(0, IndexAnswer{{9}, {0, 0}, {}, 9, 0});  // a worker that this router does not know
    REQUIRE(b.plan().blocks.at(1).at == 9);
    Executed executed = b.answer({1, 2}, {1, 1, 0, 0, 0, 0});  // the first block was there
    executed.pull_us = 40'000;
    b.answer_at(1, 1, executed);
    return b.core.pull_share();
  };
  RouterConfig config = small_config();
  const double by_pace = share_after(config);
  CHECK(by_pace == 1);  // 21 tokens at 1 us
  config.block_pace = {.us_per_operation = 4'000};
  CHECK(share_after(config) == doctest::Approx((0.25 * 20'000 + 40'000) / (20'000 + 84'000)));
  config.measures_pulls = false;
  CHECK(share_after(config) == 0.25);
}

TEST_CASE(
    "worker choice: a plan goes where it finishes first: to its block, past queues, not to a "
    "draining worker") {
  Cluster c;
  for (NodeId node : {1, 2, 3}) c.beat(0, node, beat_of(5));
  const auto ask = [&](std::int64_t us, RequestId id, std::vector<NodeId> holders) {
    c.rank(us, id, "planner", 10'000);
    c.find(us);
    c.probe.receive(us, meta, answer_of(c.asked, {std::move(holders), {0, 0}, {}, 9, 0}));
    REQUIRE(c.plans() == 1);
    return c.probe.recipients().at(0).node;
  };
  CHECK(ask(1, 1, {2}) == 2);
  CHECK(c.plan().blocks.at(1).at == 0);
  c.beat(2, 2, beat_of(5));
  Heartbeat busy = beat_of(5);
  busy.operations_waiting = 500;
  c.beat(3, 2, busy);
  CHECK(ask(4, 2, {2}) != 2);
  CHECK(c.plan().blocks.at(1).at == 2);  // it can be pulled from there
  Heartbeat draining = beat_of(5);
  draining.draining = true;
  c.beat(5, 3, draining);
  c.beat(5, 1, beat_of(5));
  CHECK(ask(6, 3, {3}) == 1);
}

TEST_CASE(
    "home: a user's block is made there, unless another worker is faster by more than the block costs") {
  Cluster c;
  for (NodeId node : {1, 2, 3}) c.beat(0, node, beat_of(5));
  const auto ask = [&](std::int64_t us, RequestId id, double coldest) {
    c.rank(us, id, "bat", 100'000);
    c.find(us);
    c.index(us, 2, coldest);
    REQUIRE(c.plans() == 1);
    return c.node;
  };
  const auto beat = [&](std::int64_t us, NodeId node, double waiting, bool draining = false) {
    Heartbeat heartbeat = beat_of(5);
    heartbeat.operations_waiting = waiting;
    heartbeat.draining = draining;
    c.beat(us, node, heartbeat);
  };
  ask(1, 1, 1);
  const NodeId home = c.asked.prefer.front();
  beat(2, home, 10);
  CHECK(ask(2, 2, 1) == home);
  beat(3, home, 10);
  CHECK(ask(3, 3, 2) != home);  // because of the items
  beat(4, home, 500);
  CHECK(ask(4, 4, 1) != home);
  beat(5, home, 0, true);
  CHECK(ask(5, 5, 1) != home);
}

TEST_CASE("suspects: two never run on one worker, and a waiting one takes the worker when it is free") {
  Cluster c(cluster_config({1, 2}));
  const NodeId first = 1, other = 2;
  Heartbeat busy = beat_of(5);
  busy.operations_waiting = 300;
  c.beat(0, other, busy);
  REQUIRE(c.send_plan(0, 1, 0, "ann") == first);
  const auto ann = c.serial;
  REQUIRE(c.send_plan(1, 2, 0, "bob") == first);
  c.lose(2, first);
  REQUIRE(c.plans() == 1);  // one of the two
  CHECK(c.plan().alone);
  CHECK(c.node == other);
  const auto running = c.serial;
  c.execute_at(3, other);
  CHECK(c.replies() == 1);
  REQUIRE(c.plans() == 1);  // now the other
  CHECK(c.plan().alone);
  CHECK(c.plan().id != running);
  CHECK(c.probe.sent<Suspect>().at(0).strikes == 0);  // the one that ran well is cleared at all routers
  CHECK((c.plan().id == ann || running == ann));
}

TEST_CASE("suspects: a parked suspect keeps its deadline") {
  Cluster c(cluster_config({1, 2}));
  Heartbeat busy = beat_of(5);
  busy.operations_waiting = 300;
  c.beat(0, 2, busy);
  REQUIRE(c.send_plan(0, 1, 0, "ann") == 1);
  REQUIRE(c.send_plan(1, 2, 0, "bob") == 1);
  c.lose(2, 1);
  CHECK(c.core.executing() == 2);
  c.run_until(1'001);
  CHECK(c.core.executing() == 0);
}

TEST_CASE("suspects: a loss beside others is never the second strike, one before any heartbeat is none") {
  Cluster c(cluster_config({1, 2, 3}));
  c.send_plan(0, 1);
  const NodeId first = c.node;
  c.run_until(500);  // late: tried elsewhere, not alone
  const NodeId second = c.node;
  REQUIRE(second != first);
  c.lose(510, first);
  c.lose(520, second);
  CHECK(c.probe.sent<Suspect>().at(0).strikes == 1);  // still one strike, now also for this loss
  CHECK(c.refused() != "unprocessable poison");
  RouterBench unheard(cluster_config({1, 2}));
  unheard.send(0, 1);
  unheard.lose(1, unheard.node);
  CHECK(unheard.probe.sent<Suspect>().empty());
}

TEST_CASE("attempts: a worker that fails is slow at once, and the failed request runs alone") {
  for (const auto& [kind, code] :
       {std::pair{RefusalKind::unavailable, "device_full"}, {RefusalKind::internal, "broken"}}) {
    Cluster c;
    const NodeId first = c.send_plan(0, 1);
    c.refuse_at(1, first, kind, code);
    CHECK(c.core.workers().slowness(first) > 3);
    if (kind == RefusalKind::unavailable) CHECK(c.plan().alone);
  }
}

TEST_CASE("admission: a request that needs more than its own budget is refused at once") {
  Cluster c(cluster_config({1}));
  c.rank(1, 1, "recompute", 20);
  c.find(2);  // 28 tokens
  CHECK(c.refused() == "unavailable overloaded");
  c.probe.receive(3, server, ScoreRequest{4, "", std::vector<Token>(30, 5), {{{8}}}, {11}, false, 30});
  CHECK(c.refused() == "unavailable overloaded");
}

TEST_CASE("attempts: scores are retried like rankings") {
  Cluster c;
  c.probe.receive(0, server, ScoreRequest{4, "", {5, 6, 7}, {{{8}}}, {11}});
  const auto first = c.probe.recipients().at(0).node;
  const Execute plan = c.plan();
  c.lose(1, first);
  CHECK(c.plan().plan.segments == plan.plan.segments);
  CHECK(c.plan().alone);
  c.probe.receive(2, {c.node, Role::inference_worker},
                  Executed{plan.id, {{{1}}}, {0, 0}, 0, 0, 0, 0, "model 1"});
  CHECK(c.probe.sent<ScoreReply>().size() == 1);
}

}  // namespace
}  // namespace troupe::router
