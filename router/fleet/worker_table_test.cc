#include "router/fleet/worker_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/base/hash.h"

namespace troupe::router {
namespace {

constexpr std::int64_t beat_us = 1'000;
WorkerTable table_of(std::vector<NodeId> nodes) {
  return WorkerTable({.heartbeat = {beat_us}, .pace = {10}, .allowance = {0}}, std::move(nodes));
}
Heartbeat heartbeat(double operations_waiting = 0, Incarnation incarnation = 5) {
  Heartbeat beat{.incarnation = incarnation, .slots = 1, .operations_waiting = operations_waiting};
  beat.models = {"m"};
  return beat;
}
WorkerTable::News hear(WorkerTable& table, Instant now, NodeId node, Heartbeat beat) {
  static std::uint64_t sequence = 0;  // any increasing number
  beat.sequence = ++sequence;
  return table.hear(now, node, beat);
}
NodeId chosen(WorkerTable& table, std::int64_t us, std::vector<WorkerTable::Option> options) {
  const auto option = table.choose({us}, options, "m", true);
  return option ? option->node : 0;
}
// Answers plans after `times` the predicted time.
void answer(WorkerTable& table, NodeId node, double times, int count = 1) {
  for (int i = 0; i < count; ++i) {
    Ticket ticket = table.send({0}, {node, 100});
    table.finish({static_cast<std::int64_t>(ticket.predicted_us * times)}, ticket);
  }
}

TEST_CASE("worker table: every worker counts as alive until three silent heartbeats have passed") {
  WorkerTable table = table_of({1, 2});
  table.start({100});
  CHECK(table.usable({3'099}, 1, "any model"));
  CHECK_FALSE(table.usable({3'100}, 1, "any model"));
  hear(table, {3'200}, 2, heartbeat());
  CHECK(table.tick({3'300}) == std::vector<NodeId>{1});
  CHECK(table.tick({3'400}).empty());
  CHECK(table.usable({6'199}, 2, "m"));
  CHECK_FALSE(table.usable({6'000}, 2, "another model"));
  CHECK(table.tick({6'200}) == std::vector<NodeId>{2});
}

TEST_CASE("worker table: slots are counted over live workers and are at least one") {
  WorkerTable table = table_of({1, 2, 3});
  table.start({0});
  for (const auto& [node, slots] : {std::pair{1U, 2U}, {2U, 5U}}) {
    Heartbeat beat = heartbeat();
    beat.slots = slots;
    hear(table, {1}, node, beat);
  }
  CHECK(table.alive_count({2}) == 3);
  const double of_nobody = table.live_slots({2}) - 7;
  CHECK(of_nobody >= 0);
  CHECK(of_nobody <= 1);
  table.lose(2);
  CHECK(table.live_slots({2}) == 2 + of_nobody);
  CHECK(table.alive_count({9'000}) == 0);
  CHECK(table.live_slots({9'000}) == 1);
}

TEST_CASE("worker table: only a live worker that was heard has a model") {
  WorkerTable table = table_of({1, 2});
  table.start({0});
  CHECK_FALSE(table.any_has("m"));
  hear(table, {1}, 1, heartbeat());
  CHECK(table.any_has("m"));
  CHECK_FALSE(table.any_has("another"));
  CHECK(table.lose(1));
  CHECK_FALSE(table.lose(1));
  CHECK_FALSE(table.any_has("m"));
}

TEST_CASE("worker table: a worker is not silent during the router's own stall") {
  WorkerTable table = table_of({1, 2});
  for (const NodeId node : {1, 2}) hear(table, {1'000}, node, heartbeat());
  table.forgive_stall({8'000});
  CHECK(table.tick({10'000}).empty());
  hear(table, {10'000}, 1, heartbeat());
  CHECK(table.tick({12'000}) == std::vector<NodeId>{2});
}

TEST_CASE("worker table: the worker in the router's process does not fall silent, others do") {
  WorkerTable table({.heartbeat = {beat_us}, .pace = {10}, .allowance = {0}, .own = 1}, {1, 2});
  table.start({0});
  hear(table, {100}, 1, heartbeat());
  hear(table, {100}, 2, heartbeat());
  // The router runs all the time, so it has no stall to forgive; the worker's heartbeat waits for a CPU.
  for (std::int64_t us = 200; us < 5'000; us += 400) {
    const auto silent = table.tick({us});
    CHECK(std::ranges::find(silent, 1) == silent.end());
  }
  CHECK(table.usable({5'000'000}, 1, "m"));
  CHECK_FALSE(table.usable({5'000'000}, 2, "m"));
  CHECK(table.lose(1));
  CHECK_FALSE(table.usable({5'000'000}, 1, "m"));
}

TEST_CASE("worker table: a worker with an overdue heartbeat comes last, until the next heartbeat") {
  WorkerTable table = table_of({1, 2});
  for (const NodeId node : {1, 2}) hear(table, {0}, node, heartbeat());
  hear(table, {1'000}, 2, heartbeat());
  CHECK(chosen(table, 1'500, {{1, 10}, {2, 100}}) == 1);
  CHECK(chosen(table, 1'501, {{1, 10}, {2, 100}}) == 2);
  CHECK(chosen(table, 1'501, {{1, 10}}) == 1);
  hear(table, {1'600}, 1, heartbeat());
  CHECK(chosen(table, 1'700, {{1, 10}, {2, 100}}) == 1);
}

TEST_CASE("worker table: a lost worker returns with its next heartbeat, a draining one when it stops") {
  WorkerTable table = table_of({1});
  table.lose(1);
  CHECK_FALSE(table.alive({0}, 1));
  CHECK(hear(table, {1}, 1, heartbeat()) == WorkerTable::News::known);
  CHECK(table.usable({2}, 1, "m"));
  Heartbeat draining = heartbeat();
  draining.draining = true;
  hear(table, {3}, 1, draining);
  CHECK(table.alive({4}, 1));
  CHECK_FALSE(table.usable({4}, 1, "m"));
}

TEST_CASE("worker table: a new incarnation is a new process, and an older one is ignored") {
  WorkerTable table = table_of({1});
  CHECK(hear(table, {0}, 1, heartbeat(0, 5)) == WorkerTable::News::known);
  CHECK(hear(table, {1}, 1, heartbeat(0, 7)) == WorkerTable::News::restarted);
  CHECK(hear(table, {2}, 1, heartbeat(0, 5)) == WorkerTable::News::ignored);
  CHECK(hear(table, {3}, 1, heartbeat(0, 7)) == WorkerTable::News::known);
  CHECK(hear(table, {4}, 9, heartbeat()) == WorkerTable::News::ignored);
}

TEST_CASE("worker table: work sent to an earlier process takes no capacity of the present one") {
  WorkerTable table = table_of({1});
  hear(table, {0}, 1, heartbeat(0, 5));
  Ticket earlier = table.send({0}, {1, 1'000});
  hear(table, {1}, 1, heartbeat(0, 7));
  table.send({1}, {1, 1'000});
  CHECK(table.has_capacity(1));
  table.send({1}, {1, 1'000});
  CHECK_FALSE(table.has_capacity(1));
  table.forget(earlier);
  CHECK_FALSE(table.has_capacity(1));
}

TEST_CASE("worker table: answers and failures of an earlier process say nothing about the present one") {
  WorkerTable table = table_of({1, 2});
  hear(table, {0}, 1, heartbeat(0, 5));
  Ticket slow = table.send({0}, {1, 100}), failed = table.send({0}, {1, 100});
  hear(table, {1}, 1, heartbeat(0, 7));
  CHECK_FALSE(table.finish({1'000'000}, slow));
  table.fail({1'000'000}, failed);
  CHECK(table.slowness(1) == 1);
  CHECK(table.wait_us({1'000'000}, 1) == 0);
}

TEST_CASE("worker table: a heartbeat proves life if it is two later than those that may be in flight") {
  WorkerTable table = table_of({1});
  Heartbeat beat = heartbeat();
  beat.sequence = 7;
  table.hear({0}, 1, beat);
  CHECK(table.proof_of_life({0}, 1) == 9);
  CHECK(table.proof_of_life({beat_us - 1}, 1) == 9);
  CHECK(table.proof_of_life({beat_us}, 1) == 10);
  CHECK(table.proof_of_life({0}, 2) == 0);
}

TEST_CASE("worker table: the wait is the reported work and what was sent since, over the slots") {
  WorkerTable table = table_of({1});
  Heartbeat beat = heartbeat(60);
  beat.slots = 2;
  beat.us_per_operation = 4;
  hear(table, {0}, 1, beat);
  CHECK(table.wait_us({0}, 1) == 120);
  Ticket first = table.send({0}, {1, 50});
  CHECK(first.predicted_us == 120 + 200);
  CHECK(table.wait_us({0}, 1) == 220);
  Ticket second = table.send({0}, {1, 30});
  table.forget(first);
  CHECK(table.wait_us({0}, 1) == 180);
  hear(table, {2}, 1, beat);  // this heartbeat counts the second
  table.forget(second);
  CHECK(table.wait_us({2}, 1) == 120);
  beat.slots_busy = 1;
  hear(table, {3}, 1, beat);
  CHECK(table.wait_us({3}, 1) > 120);
}

TEST_CASE("worker table: the backlog shrinks between heartbeats, what was sent since stays until it ends") {
  WorkerTable table = table_of({1, 2});
  for (const NodeId node : {1, 2}) hear(table, {0}, node, heartbeat(30));
  CHECK(table.wait_us({0}, 1) == 300);
  CHECK(table.wait_us({200}, 1) == 100);
  CHECK(table.wait_us({900}, 1) == 0);
  Ticket sent = table.send({900}, {1, 5});
  CHECK(sent.predicted_us == 50);
  CHECK(table.wait_us({990}, 1) == 50);
  answer(table, 2, 10, 10);  // ten times slower: its backlog shrinks ten times more slowly
  CHECK(table.wait_us({200}, 2) > 270);
}

TEST_CASE("worker table: a pace has a time for each unit of work") {
  WorkerTable table = table_of({1});
  Heartbeat beat = heartbeat();
  beat.us_per_operation = 2;
  beat.us_per_byte = 0.5;
  beat.us_per_pass = 30;
  beat.bytes_waiting = 8;
  hear(table, {0}, 1, beat);
  CHECK(table.predicted_us({0}, 1, {10, 20, 1}) == 4 + 20 + 10 + 30);
}

TEST_CASE("worker table: an overtaken or repeated heartbeat changes nothing, one of a new process does") {
  WorkerTable table = table_of({1});
  Heartbeat beat = heartbeat(10);
  beat.sequence = 7;
  CHECK(table.hear({0}, 1, beat) == WorkerTable::News::known);
  Heartbeat late = heartbeat(1'000);
  late.sequence = 6;
  CHECK(table.hear({2'000}, 1, late) == WorkerTable::News::ignored);
  Ticket sent = table.send({2'000}, {1, 5});
  CHECK(table.hear({2'000}, 1, beat) == WorkerTable::News::ignored);
  CHECK(table.wait_us({0}, 1) == 150);
  CHECK_FALSE(table.alive({3'000}, 1));  // neither heartbeat proves that it still lives
  table.lose(1);
  table.hear({2'001}, 1, late);
  CHECK_FALSE(table.alive({2'001}, 1));
  Heartbeat reborn = heartbeat(0, 6);
  reborn.sequence = 1;
  CHECK(table.hear({2'002}, 1, reborn) == WorkerTable::News::restarted);
  CHECK(table.alive({2'002}, 1));
  table.forget(sent);
}

TEST_CASE("worker table: the earliest completion wins, counting the queue and the blocks held") {
  WorkerTable table = table_of({1, 2, 3});
  hear(table, {0}, 1, heartbeat(100));
  hear(table, {0}, 2, heartbeat(0));
  CHECK(chosen(table, 1, {{1, 10}, {2, 100}}) == 2);
  CHECK(chosen(table, 1, {{1, 10}, {2, 120}}) == 1);
  CHECK(chosen(table, 1, {}) == 0);
  table.lose(2);
  CHECK(chosen(table, 1, {{1, 10}, {2, 0}}) == 1);
}

TEST_CASE("worker table: other rules use hits and load, and time only for ties") {
  const auto chosen_by = [](Routing routing) {
    WorkerTable table({.heartbeat = {beat_us}, .pace = {10}, .allowance = {0}, .routing = routing},
                      {1, 2, 3});
    hear(table, {0}, 1, heartbeat(100));
    hear(table, {0}, 2, heartbeat(0));
    hear(table, {0}, 3, heartbeat(20));
    // Worker 1 holds most and has a queue, 2 holds nothing and is idle, 3 would be done first.
    return chosen(table, 0,
                  {{1, {10}, 0, 0, 0.9, {100}}, {2, {100}, 0, 0, 0.0, {100}}, {3, {50}, 0, 0, 0.5, {100}}});
  };
  CHECK(chosen_by({}) == 3);
  CHECK(chosen_by({Routing::By::hits}) == 1);
  CHECK(chosen_by({Routing::By::load}) == 2);
  CHECK(chosen_by({Routing::By::affinity, 0.9}) == 1);  // .9 * .9 - .1 / 2 over .9 * .5 - .1 / 6
  CHECK(chosen_by({Routing::By::affinity, 0.4}) == 3);  // .4 / 2 - .6 / 6 over .4 * .9 - .6 / 2, over 0
  CHECK(chosen_by({Routing::By::affinity, 0.1}) == 2);  // hit 0 and load 0, where the others score below 0
  WorkerTable table({.heartbeat = {beat_us}, .pace = {10}, .allowance = {0}, .routing = {Routing::By::hits}},
                    {1, 2, 3});
  CHECK(chosen(table, 0,
               {{3, {11}, 0, 0, 0.5, {100}}, {2, {10}, 0, 0, 0.5, {100}}, {1, {9}, 0, 0, 0.4, {100}}}) == 2);
}

TEST_CASE(
    "worker table: Algorithm 1 weighs the costs of misses, and replaces a too busy best by the idlest") {
  const auto option = [](NodeId node, double hit, double found,
                         bool last = false) {  // weights: .4 hit, .2 found, .4 (1 - load)
    return WorkerTable::Option{node, {10}, 0, 0, hit, {100}, {}, 500, found, last};
  };
  const auto chosen_with = [&](double waits_at_first, std::vector<WorkerTable::Option> options,
                               double waits_at_second = 0) {
    WorkerTable table(
        {.heartbeat = {beat_us}, .pace = {10}, .allowance = {0}, .routing = {Routing::By::joint}}, {1, 2});
    hear(table, {0}, 1, heartbeat(waits_at_first));
    hear(table, {0}, 2, heartbeat(waits_at_second));
    return chosen(table, 0, options);
  };
  CHECK(chosen_with(0, {option(2, 0, 1), option(1, 1, 0)}) == 1);
  CHECK(chosen_with(0, {option(2, 0, 0.5), option(1, 0.2, 0)}) == 2);
  CHECK(chosen_with(0, {option(2, 0, 0.5), option(1, 0.2, 0, true)}) == 1);
  CHECK(chosen_with(0, {option(2, 0, 0.5, true), option(1, 0.2, 0)}) == 2);
  CHECK(chosen_with(400, {option(2, 0, 0), option(1, 1, 0)}) == 1);    // waits for four times its own time
  CHECK(chosen_with(1'000, {option(2, 0, 0), option(1, 1, 0)}) == 2);  // would still have the higher score
  // The idlest is too busy as well: the best score stays.
  CHECK(chosen_with(1'000, {option(2, 0, 0), option(1, 1, 0)}, 900) == 1);
  CHECK(chosen_with(1'000, {option(2, 0, 0), option(1, 1, 0)}, 500) == 2);  // load 0.83
}

TEST_CASE("worker table: a tie goes to the home, else to the lower node") {
  WorkerTable table = table_of({1, 2, 3});
  CHECK(chosen(table, 1, {{3, 10}, {1, 10}, {2, 10}}) == 3);
  CHECK(chosen(table, 1, {{3, 11}, {2, 10}, {1, 10}}) == 1);
}

TEST_CASE("worker table: a home stays while it lives, and homes are spread evenly") {
  std::vector<NodeId> nodes;
  for (NodeId node = 1; node <= 10; ++node) nodes.push_back(node);
  WorkerTable table = table_of(nodes);
  std::map<NodeId, int> homes;
  for (std::uint64_t user = 0; user < 1'000; ++user) {
    const auto home = table.candidates({0}, {.home = spread(user), .draw = user, .model = "m"}).at(0);
    ++homes[home];
    table.lose(home == 1 ? 2 : 1);  // another worker
    CHECK(table.candidates({0}, {.home = spread(user), .draw = user + 1, .model = "m"}).at(0) == home);
    hear(table, {0}, home == 1 ? 2 : 1, heartbeat());
  }
  for (const auto& [node, count] : homes) CHECK(count > 60);
}

TEST_CASE("worker table: candidates are the home and the two shortest waits, never the tried ones") {
  WorkerTable table = table_of({1, 2, 3, 4, 5});
  for (NodeId node = 1; node <= 5; ++node) hear(table, {0}, node, heartbeat(node * 10));
  const auto nodes = table.candidates({1}, {.home = 7, .model = "m"});
  REQUIRE(nodes.size() == 3);
  const NodeId home = nodes[0];
  CHECK(nodes[1] == (home == 1 ? 2 : 1));
  CHECK(nodes[2] == (home <= 2 ? 3 : 2));
  const std::vector<NodeId> tried{home, nodes[1]};
  for (const NodeId node : table.candidates({1}, {.home = 7, .model = "m", .tried = tried}))
    CHECK(node != home);
  const std::vector<NodeId> all{1, 2, 3, 4, 5};
  CHECK(table.candidates({1}, {.home = 7, .model = "m", .tried = all}).empty());
}

TEST_CASE("worker table: of a thousand workers a few are looked at, others for other requests") {
  std::vector<NodeId> nodes;
  for (NodeId node = 1; node <= 1'000; ++node) nodes.push_back(node);
  WorkerTable table = table_of(nodes);
  std::set<NodeId> seen;
  for (std::uint64_t draw = 0; draw < 100; ++draw) {
    const auto found = table.candidates({0}, {.home = 1, .draw = spread(draw), .model = "m"});
    CHECK(found.size() == 3);
    seen.insert(found.begin() + 1, found.end());
  }
  CHECK(seen.size() > 100);
  CHECK(table.candidates({0}, {.home = 1, .draw = 5, .model = "m"}) ==
        table.candidates({0}, {.home = 1, .draw = 5, .model = "m"}));
}

TEST_CASE("worker table: a very slow worker gets occasional probes until it is normal") {
  WorkerTable table = table_of({1, 2, 3});
  for (NodeId node = 1; node <= 3; ++node) hear(table, {0}, node, heartbeat());
  answer(table, 3, 10, 10);
  table.tick({0});
  CHECK(table.slow(3));
  CHECK(table.slowness(3) > 5);
  const std::int64_t later = beat_us + 1;
  CHECK(chosen(table, later, {{3, 0}, {1, 100}}) == 3);  // a probe, although it would finish later
  CHECK(chosen(table, later + 1, {{3, 0}, {1, 100}}) == 1);
  CHECK(chosen(table, later + beat_us, {{3, 0}, {1, 100}}) == 3);
  for (NodeId node = 1; node <= 3; ++node) hear(table, {later + 2 * beat_us}, node, heartbeat());
  CHECK(chosen(table, later + 2 * beat_us, {{3, 0}, {1, 100}}) == 1);  // the second gap is longer
  CHECK(chosen(table, later + 2 * beat_us, {{3, 0}}) == 3);            // the only option
  answer(table, 3, 1, 12);
  CHECK_FALSE(table.slow(3));
}

TEST_CASE("worker table: a worker that times out is slow at once; a single worker never is") {
  WorkerTable table = table_of({1, 2});
  table.tick({0});
  table.time_out({300}, table.send({0}, {1, 10}));
  CHECK_FALSE(table.slow(1));  // exactly three times the prediction
  table.time_out({401}, table.send({0}, {1, 0}));
  CHECK(table.slow(1));
  CHECK_FALSE(table.slow(2));
  CHECK(chosen(table, 1, {{1, 0}, {2, 50}}) == 2);
  WorkerTable alone = table_of({1});
  alone.tick({0});
  alone.time_out({1'000}, alone.send({0}, {1, 10}));
  CHECK_FALSE(alone.slow(1));
}

TEST_CASE("worker table: a worker that fails is slow at once, however fast it fails") {
  WorkerTable table = table_of({1, 2});
  table.tick({0});
  table.fail({0}, table.send({0}, {1, 10}));
  CHECK(table.slow(1));
}

TEST_CASE("worker table: repeated time-outs on most workers do not add up, and answers restore all") {
  constexpr NodeId count = 5;
  WorkerTable table = table_of({1, 2, 3, 4, 5});
  std::int64_t now = 0;
  const auto beats = [&] {
    now += beat_us;
    for (NodeId node = 1; node <= count; ++node) hear(table, {now}, node, heartbeat());
    table.tick({now});
  };
  for (int round = 0; round < 2'000; ++round) {
    beats();
    for (NodeId node = 1; node < count; ++node) table.fail({now}, table.send({now}, {node, 1}));
  }
  for (NodeId node = 1; node <= count; ++node) CHECK(table.slowness(node) < 5);
  const std::int64_t end = now + 10 * beat_us;  // two seconds with a heartbeat of 200 ms
  while (now < end) {
    beats();
    for (int i = 0; i < 4; ++i) {
      const NodeId node = chosen(table, now, {{1, 10}, {2, 10}, {3, 10}, {4, 10}, {5, 10}});
      Ticket ticket = table.send({now}, {node, 10});
      table.finish({now + static_cast<std::int64_t>(ticket.predicted_us)}, ticket);
    }
  }
  for (NodeId node = 1; node <= count; ++node) CHECK_FALSE(table.slow(node));
}

TEST_CASE("worker table: if the drawn workers are unsuitable, others are looked at until two are found") {
  std::vector<NodeId> nodes;
  for (NodeId node = 1; node <= 200; ++node) nodes.push_back(node);
  WorkerTable table = table_of(nodes);
  for (NodeId node = 1; node <= 200; ++node)
    if (node % 50 != 0) table.lose(node);  // four are left
  for (std::uint64_t draw = 0; draw < 100; ++draw) {
    const auto found = table.candidates({0}, {.home = 1, .draw = spread(draw), .model = "m"});
    CHECK(found.size() >= 2);
    for (const NodeId node : found) CHECK(node % 50 == 0);
  }
}

TEST_CASE("worker table: when all are slower than predicted, none is slow") {
  WorkerTable table = table_of({1, 2, 3});
  for (NodeId node = 1; node <= 3; ++node) answer(table, node, 8, 10);
  table.tick({0});
  for (NodeId node = 1; node <= 3; ++node) CHECK_FALSE(table.slow(node));
}

TEST_CASE("worker table: a refusal of a next model counts for those versions, while the worker takes plans") {
  WorkerTable table = table_of({1, 2});
  Heartbeat beat = heartbeat();
  beat.versions_epoch = 7;
  beat.refused_model = "n";
  beat.refused_why = "why";
  hear(table, {0}, 2, beat);
  CHECK(table.load_refusal({1}, 7, "n") == "node 2: why");
  CHECK(table.load_refusal({1}, 8, "n").empty());
  CHECK(table.load_refusal({1}, 7, "m").empty());
  CHECK(table.load_refusal({1}, 7, "").empty());
  CHECK(table.load_refusal({5'000}, 7, "n").empty());
  beat.draining = true;
  hear(table, {1}, 2, beat);
  CHECK(table.load_refusal({2}, 7, "n").empty());
}

TEST_CASE("worker table: a model is everywhere when every live worker that takes plans reported it") {
  WorkerTable table = table_of({1, 2, 3});
  table.start({0});
  hear(table, {0}, 1, heartbeat());
  hear(table, {0}, 2, heartbeat());
  CHECK_FALSE(table.all_have({1}, "m"));  // 3 has reported nothing yet
  table.lose(3);
  CHECK(table.all_have({1}, "m"));
  CHECK_FALSE(table.all_have({1}, "n"));
  table.lose(2);
  CHECK_FALSE(table.all_have({1}, "m"));  // one of three is heard
  hear(table, {1}, 2, heartbeat());
  CHECK_FALSE(table.all_have({5'000}, "m"));  // no worker is alive
  CHECK_FALSE(table.all_follow({1}, 4));
  for (NodeId node : {1, 2}) {
    Heartbeat beat = heartbeat();
    beat.versions_epoch = 4;
    hear(table, {2}, node, beat);
  }
  CHECK(table.all_follow({3}, 4));
}

TEST_CASE("worker table: a joined node lives from its first heartbeat, a removed one is ignored") {
  WorkerTable table = table_of({1, 2});
  table.start({0});
  hear(table, {1}, 1, heartbeat());
  Ticket ticket = table.send({1}, {1, 100});
  table.follow({2, 7});
  CHECK(table.nodes() == std::vector<NodeId>{2, 7});
  CHECK_FALSE(table.alive({2}, 1));
  CHECK_FALSE(table.alive({2}, 7));
  CHECK(hear(table, {3}, 1, heartbeat()) == WorkerTable::News::ignored);
  CHECK_FALSE(table.alive({3}, 1));
  hear(table, {4}, 7, heartbeat());
  CHECK(table.usable({4}, 7, "m"));
  table.finish({5}, ticket);
  CHECK(chosen(table, 5, {{1, 10}, {7, 10}}) == 7);
}

TEST_CASE("worker table: a node that joined and left does not count and is not drawn") {
  WorkerTable table = table_of({1, 2, 3});
  for (NodeId node = 10; node < 60; ++node) {
    table.follow({1, 2, 3, node});
    table.follow({1, 2, 3});
  }
  for (const NodeId node : {1, 2, 3}) hear(table, {1}, node, heartbeat());
  CHECK(table.all_have({2}, "m"));
  CHECK(table.candidates({2}, {.home = 7, .draw = 3, .model = "m"}).size() == 3);
  table.follow({});
  CHECK(table.candidates({2}, {.home = 7, .draw = 3, .model = "m"}).empty());
}

}  // namespace
}  // namespace troupe::router
