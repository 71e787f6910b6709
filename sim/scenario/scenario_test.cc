#include "sim/scenario/scenario.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/config/config.h"

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("scenario: a seed always gives the same scenario, and other seeds give others") {
  CHECK(describe(draw_scenario(7)) == describe(draw_scenario(7)));
  CHECK(draw_scenario(7).faults == draw_scenario(7).faults);
  CHECK(describe(draw_scenario(7)) != describe(draw_scenario(8)));
}

TEST_CASE(
    "scenario: every kind of fault is drawn by some seed, within the safety phase and at an existing "
    "node") {
  std::vector<std::size_t> drawn(fault_kinds);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Scenario s = draw_scenario(seed);
    for (const Fault& fault : s.faults) {
      ++drawn[static_cast<std::size_t>(fault.kind)];
      CHECK(fault.at.us >= s.warm_up.us);
      CHECK(fault.at.us + fault.lasts.us <= s.warm_up.us + s.safety.us);
      CHECK(fault.node <= s.nodes());
    }
  }
  for (std::size_t kind = 0; kind < fault_kinds; ++kind) {
    CAPTURE(name_of(static_cast<FaultKind>(kind)));
    CHECK(drawn[kind] > 0);
  }
}

TEST_CASE("scenario: limits on nodes and fault kinds hold") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    for (const std::uint32_t nodes : {1U, 2U, 3U, 7U, 100U}) {
      const Scenario s = draw_scenario(seed, {.nodes = nodes});
      CHECK(s.nodes() == nodes);
      CHECK(s.workers > 0);
    }
    for (const Fault& fault : draw_scenario(seed, {.kinds = {FaultKind::kill, FaultKind::pause}}).faults)
      CHECK((fault.kind == FaultKind::kill || fault.kind == FaultKind::pause));
    CHECK(draw_scenario(seed, {.no_faults = true}).faults.empty());
  }
}

TEST_CASE("scenario: harmless drills let a router hold the requests that arrive before a loss is detected") {
  std::size_t harmless = 0, small = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Scenario s = draw_scenario(seed);
    const double waiting = s.requests_per_s * static_cast<double>(3 * s.heartbeat.us) * 1e-6;
    if (s.harmless) CHECK(s.in_flight_max > 1.5 * waiting);
    harmless += s.harmless;
    small += s.in_flight_max < 40;
  }
  CHECK(harmless > 0);
  CHECK(small > 0);  // other scenarios do reach their bound
}

TEST_CASE("scenario: forms read scores at a discriminant or behind each candidate, as they declare") {
  std::size_t behind_each = 0, apart = 0, prefix = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Scenario s = draw_scenario(seed);
    PromptForm form;
    (s.scores_each ? form.score : form.discriminant) = {9};
    for (const Arrangement declared : s.arrangements) CHECK(form.can_have(declared));
    for (const Arrangement one : s.interchangeable) CHECK(std::ranges::count(s.arrangements, one) == 1);
    if (!s.interchangeable.empty()) CHECK(s.interchangeable.front() == s.arrangements.front());
    CHECK_FALSE((s.generates && s.scores_each));
    behind_each += s.scores_each;
    apart += s.scores_each && s.arrangements.front() == Arrangement::candidates_apart;
    prefix += s.scores_each && std::ranges::count(s.arrangements, Arrangement::item_first) == 1;
  }
  CHECK(behind_each > 10);
  CHECK(apart > 0);
  CHECK(prefix > 0);
  CHECK(behind_each > apart);
}

TEST_CASE(
    "scenario: every placement is drawn, and routers decide on hot items with the automatic one alone") {
  std::size_t automatic = 0, hash = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Scenario s = draw_scenario(seed);
    CHECK(s.refresh.replication.on == (s.placement == ItemPlacement::automatic));
    automatic += s.placement == ItemPlacement::automatic;
    hash += s.placement == ItemPlacement::hash;
  }
  CHECK(automatic > 10);
  CHECK(hash > 0);
}

// The policy is left out: a scenario without a policy is a paper's or drawn.
TEST_CASE("scenario: its defaults are those of the settings") {
  const Scenario s;
  const Config config;
  CHECK(s.heartbeat.us == config.cluster.heartbeat.us);
  CHECK(s.deadline.us == config.router.deadline.us);
  CHECK(s.window.us == config.router.window.us);
  CHECK(s.frequency_window.us == config.router.frequency_window.us);
  CHECK(s.turn.us == config.router.quantum.us);
  CHECK(s.in_flight_max == config.router.requests_in_flight_max);
  CHECK(s.tenants_max == config.router.tenants_max);
  CHECK(s.pull_share == config.router.pull_share);
  CHECK(s.page_tokens == config.pool.page_tokens);
  CHECK(s.row_share == config.pool.row_share);
  CHECK(s.store == config.pool.store_item_blocks);
  CHECK(s.precompute == config.pool.precompute_items);
  CHECK(s.queue_max == config.inference.queue_max);
  CHECK(s.overlap == config.inference.overlap);
  CHECK(s.verify_share == config.verify.share);
  CHECK(s.batch_tokens_max == config.inference.batch_tokens_max);
  CHECK(s.batch_wait.us == config.inference.batch_wait.us);
}
