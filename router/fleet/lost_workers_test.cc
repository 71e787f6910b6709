#include "router/fleet/lost_workers.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace lost_workers_test {

constexpr std::int64_t beat_us = 1'000, second_us = 1'000'000;

struct Bench {
  WorkerTable workers{{.heartbeat = {beat_us}}, {3, 4}};
  MemberWatch members{{{3, 4}, {8}, {9}}, {0}};
  LostWorkers lost;
  std::uint64_t next_id = 1, sequence = 0;
  Effects effects;

  Step at(std::int64_t us) { return {{us}, next_id, effects}; }
  void hear(std::int64_t us, NodeId node) {
    Heartbeat beat{.incarnation = 5, .slots = 1};
    beat.sequence = ++sequence;
    workers.hear({us}, node, beat);
  }
  void beat(std::int64_t us) {
    workers.tick({us});
    lost.tick(at(us), workers, members);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& effect : effects.list)
      if (const auto* line = std::get_if<Effects::Log>(&effect))
        lines.push_back(line->event + " " + line->fields.at(0).value);
    return lines;
  }
  double gauge() const {
    double value = 0;
    for (const auto& effect : effects.list)
      if (const auto* count = std::get_if<Effects::Count>(&effect))
        if (count->metric == Metric::workers_lost) value = count->amount;
    return value;
  }
};
using Lines = std::vector<std::string>;

TEST_CASE("lost workers: a worker that falls silent is missed until it is heard again") {
  Bench b;
  for (const NodeId node : {3, 4}) b.hear(0, node);
  b.beat(beat_us);
  CHECK(b.lost.describe() == "");
  b.hear(10 * beat_us, 4);
  for (int i = 10; i < 13; ++i) b.beat(i * beat_us);
  CHECK(b.lines() == Lines{"worker_lost 3"});
  CHECK(b.gauge() == 1);
  CHECK(b.lost.describe() == "1 of 2 workers are lost: node 3");
  for (const NodeId node : {3, 4}) b.hear(13 * beat_us, node);
  b.beat(13 * beat_us);
  CHECK(b.lines() == Lines{"worker_lost 3", "worker_back 3"});
  CHECK(b.gauge() == 0);
  CHECK(b.lost.describe() == "");
}

TEST_CASE("lost workers: a broken connection is reported at once, and as such") {
  Bench b;
  for (const NodeId node : {3, 4}) b.hear(0, node);
  REQUIRE(b.workers.lose(4));
  b.lost.lose(b.at(10), 4, b.members);
  b.hear(beat_us, 3);
  b.beat(beat_us);
  CHECK(b.lines() == Lines{"worker_lost 4"});
  const auto& fields = std::get<Effects::Log>(b.effects.list.front()).fields;
  CHECK(fields.at(1).value == "its process or the connection to it is gone");
}

TEST_CASE("lost workers: a leaving worker that disconnects is not missed") {
  Bench b;
  const MemberWatch leaving{{{3, 4}, {8}, {9}}, {0}, {.members = {.leaving = {4}}, .revision = 1}};
  for (const NodeId node : {3, 4}) b.hear(0, node);
  REQUIRE(b.workers.lose(4));
  b.lost.lose(b.at(10), 4, leaving);
  b.hear(beat_us, 3);
  b.workers.tick({beat_us});
  b.lost.tick(b.at(beat_us), b.workers, leaving);
  CHECK(b.lines().empty());
  CHECK(b.lost.count() == 0);
}

TEST_CASE("lost workers: a worker that was never heard has time to start") {
  Bench b;
  for (std::int64_t us = 100 * beat_us; us < 10 * second_us; us += second_us) b.beat(us);
  CHECK(b.lines().empty());
  b.beat(11 * second_us);
  CHECK(b.lines() == Lines{"worker_lost 3", "worker_lost 4"});
  CHECK(b.lost.describe() == "2 of 2 workers are lost: node 3, node 4");
}

TEST_CASE("lost workers: one that is removed is missed no longer") {
  Bench b;
  for (const NodeId node : {3, 4}) b.hear(0, node);
  b.beat(second_us);
  CHECK(b.lost.count() == 2);
  b.hear(second_us, 4);
  b.workers.follow({4});
  b.beat(second_us);
  CHECK(b.lost.describe() == "");
  CHECK(b.gauge() == 0);
}

TEST_CASE("lost workers: one that comes and goes does not flood the log") {
  Bench b;
  for (int i = 0; i < 100; ++i) {
    for (const NodeId node : {3, 4}) b.hear(i * 50 * beat_us, node);
    b.beat(i * 50 * beat_us);
    b.beat((i * 50 + 40) * beat_us);
  }
  CHECK(b.lines().size() == 4);  // both are lost and come back once in these five seconds
  CHECK(b.lost.count() == 2);
}

}  // namespace lost_workers_test
}  // namespace troupe::router
