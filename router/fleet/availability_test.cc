#include "router/fleet/availability.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace availability_test {

struct Bench {
  explicit Bench(bool coordinate = false)
      : versions({.model_version = "m"}, coordinate),
        availability({.leader_wait = {5'000}}, versions, workers, leader) {}
  WorkerTable workers{{.heartbeat = {1'000}}, {1}};
  LeaderView leader{{1, 2}, {1'000}};
  VersionKeeper versions;
  Availability availability;
  std::uint64_t next_id = 1;
  Effects effects;

  void beat() {
    Heartbeat beat{.incarnation = 5};
    beat.models = {"m"};
    workers.hear({0}, 1, beat);
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
  CHECK(b.availability.not_ready_reason({0}) == "it is draining");
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
  b.beat();
  CHECK(b.availability.not_ready_reason({4'999}) == "the leading cache-meta is not known yet");
  CHECK(b.availability.not_ready_reason({5'000}) == "");
  b.leader.hear({0}, 2, 1);
  CHECK(b.availability.not_ready_reason({10}) == "");
}

TEST_CASE("availability: a change of draining is logged once") {
  Bench b;
  for (int i = 0; i < 2; ++i) b.availability.drain({{0}, b.next_id, b.effects}, true);
  CHECK(b.effects.list.size() == 1);
}

}  // namespace availability_test
}  // namespace troupe::router
