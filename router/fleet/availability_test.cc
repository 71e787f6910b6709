#include "router/fleet/availability.h"

#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <utility>

namespace troupe::router {
namespace availability_test {

struct Bench {
  explicit Bench(bool coordinate = false)
      : versions({.model_version = "m"}, coordinate, {200'000}),
        availability({.leader_wait = {5'000}, .worker_wait = {6'000}, .fleet_wait = {2'000}}, versions,
                     workers, leader) {}
  WorkerTable workers{{.heartbeat = {1'000}}, {1}};
  LeaderView leader{{1, 2}, {1'000}};
  VersionKeeper versions;
  Availability availability;
  std::uint64_t next_id = 1;
  Effects effects;

  std::uint64_t beats = 0;
  void beat(std::int64_t us = 0, bool draining = false) {
    Heartbeat beat{.incarnation = 5, .sequence = ++beats};
    beat.models = {"m"};
    beat.draining = draining;
    workers.hear({us}, 1, beat);
  }
  std::string refusal() const {
    const auto refused = availability.refusal({0});
    return refused ? refused->code : "";
  }
};

TEST_CASE("availability: requests are refused while draining and while the versions are unknown") {
  Bench b;
  CHECK(b.refusal() == "");
  b.availability.drain({{0}, b.next_id, b.effects}, true);
  CHECK(b.refusal() == "draining");
  CHECK(b.availability.not_ready_reason({0}) == "it is draining: it accepts no new requests");
  b.availability.drain({{0}, b.next_id, b.effects}, false);
  CHECK(b.refusal() == "");
  Bench unknown(true);
  CHECK(unknown.refusal() == "starting");
  CHECK(unknown.availability.is_starting({0}));
  unknown.availability.drain({{0}, b.next_id, b.effects}, true);
  CHECK_FALSE(unknown.availability.is_starting({0}));  // nothing is worth waiting for
}

TEST_CASE("availability: a router is ready with a worker and a leader, or without one after a while") {
  Bench b;
  b.availability.start({0});
  CHECK(b.availability.not_ready_reason({0}) == "no worker serves model m");
  b.beat(4'500);
  CHECK(b.availability.not_ready_reason({4'999}) == "the leading cache-meta is not known yet");
  CHECK(b.availability.not_ready_reason({5'000}) == "");
  b.leader.hear({0}, 2, 1);
  CHECK(b.availability.not_ready_reason({10}) == "");
}

TEST_CASE("availability: a router is not ready while its only worker drains or is silent") {
  Bench b;
  b.availability.start({0});
  b.leader.hear({9'000}, 2, 1);
  b.beat(9'000);
  CHECK(b.availability.not_ready_reason({9'100}) == "");
  CHECK(b.availability.not_ready_reason({20'000}) == "no worker serves model m");
  b.beat(20'000, true);
  CHECK(b.availability.not_ready_reason({20'100}) == "no worker serves model m");
}

TEST_CASE("availability: a router that starts is ready once it has heard all workers, or after a while") {
  Bench b;
  b.workers.follow({1, 2});
  b.availability.start({0});
  b.leader.hear({0}, 2, 1);
  b.beat(100);
  CHECK(b.availability.not_ready_reason({200}) == "some workers are not heard yet");
  CHECK(b.availability.not_ready_reason({2'000}) == "");
  b.workers.follow({1});  // the other has left
  CHECK(b.availability.not_ready_reason({200}) == "");
}

TEST_CASE("availability: requests wait for a worker only shortly after one was usable") {
  Bench b;
  b.availability.start({0});
  const auto tick = [&](std::int64_t us) { b.availability.tick({{us}, b.next_id, b.effects}); };
  b.beat(10'000);
  tick(10'000);
  CHECK_FALSE(b.availability.awaits_worker({10'000}));
  b.workers.lose(1);
  CHECK(b.availability.awaits_worker({10'100}));
  CHECK(b.availability.awaits_worker({15'999}));
  CHECK_FALSE(b.availability.awaits_worker({16'000}));
  b.availability.forgive_stall({2'000});
  CHECK(b.availability.awaits_worker({17'999}));
  b.beat(17'000, true);  // it drains
  CHECK(b.availability.awaits_worker({17'100}));
  b.availability.drain({{17'200}, b.next_id, b.effects}, true);
  CHECK_FALSE(b.availability.awaits_worker({17'200}));
  b.availability.drain({{17'300}, b.next_id, b.effects}, false);
  b.beat(17'400);
  CHECK_FALSE(b.availability.awaits_worker({17'400}));
  tick(30'000);  // it is silent since then
  CHECK_FALSE(b.availability.awaits_worker({30'000}));
}

// Any state that the versions, the workers and an operator can bring about: a refusal of all requests
// is the reason why the router is not ready.
TEST_CASE("availability: a router that refuses every request is not ready, for the same reason") {
  const unsigned seed = 11;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::size_t refused = 0, ready = 0, disproved = 0;
  for (int run = 0; run < 200; ++run) {
    Bench b(run % 4 != 0);
    b.availability.start({0});
    std::optional<std::uint64_t> job;
    Revision revision = 0;
    for (std::int64_t us = 0; us < 3'000'000; us += 50'000) {
      Effects effects;
      const Step step{{us}, b.next_id, effects};
      const auto draw = random() % 16;
      if (draw == 0) b.availability.drain(step, random() % 4 == 0);
      if (draw == 1) b.versions.rumour(step, random() % 60, b.workers);
      if (draw == 2) revision = random() % 40;  // the store lost its data, or has newer versions
      if (draw < 12) b.beat(us, random() % 8 == 0);
      b.versions.tick(step, b.workers);
      for (const auto& effect : effects.list)
        if (const auto* start = std::get_if<Effects::Start>(&effect)) job = start->job;
      if (job && random() % 2 == 0) {
        const bool away = random() % 3 == 0;
        JobResult result = CoordinationReply{true, revision, revision > 0 ? "m\nc\n" : ""};
        if (away) result = Refusal{RefusalKind::unavailable, "away", "no answer in time"};
        b.versions.on_done({{us}, b.next_id, b.effects}, *std::exchange(job, std::nullopt), result,
                           b.workers);
        for (const auto& effect : b.effects.list)
          if (const auto* start = std::get_if<Effects::Start>(&effect)) job = start->job;
        b.effects.list.clear();
      }
      const auto refusal = b.availability.refusal({us});
      const std::string not_ready = b.availability.not_ready_reason({us});
      if (refusal) CHECK(not_ready == refusal->what);
      if (!b.workers.any_usable({us}, "m")) CHECK(not_ready != "");
      refused += refusal.has_value();
      ready += not_ready.empty();
      disproved += refusal && refusal->what.find("newer than epoch") != std::string::npos;
    }
  }
  CHECK(refused > 100);
  CHECK(ready > 100);
  CHECK(disproved > 0);
}

TEST_CASE("availability: a change of draining is logged once") {
  Bench b;
  for (int i = 0; i < 2; ++i) b.availability.drain({{0}, b.next_id, b.effects}, true);
  CHECK(b.effects.list.size() == 1);
}

}  // namespace availability_test
}  // namespace troupe::router
