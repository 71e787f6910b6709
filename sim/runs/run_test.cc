#include "sim/runs/run.h"

#include <doctest/doctest.h>

#include "sim/runs/swarm.h"

using namespace troupe;
using namespace troupe::sim;

TEST_CASE("run: a cluster without faults answers every request, and a seed replays exactly") {
  std::uint64_t approximate = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = draw_scenario(seed, {.no_faults = true});
    const RunResult result = run(scenario);
    for (const Violation& violation : result.violations) {
      CAPTURE(violation.what);
      CHECK(violation.promise == 0);
    }
    CHECK(result.tally.answered > 0);
    CHECK(result.digest == run(scenario).digest);
    CHECK(result.tally.approximate < result.tally.answered / 2);
    approximate += result.tally.approximate;
  }
  CHECK(approximate > 0);
}

TEST_CASE(
    "run: every request is answered while a worker joins and another leaves after migrating its blocks") {
  std::uint64_t left = 0, handed_on = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = draw_scenario(seed, {.no_faults = true, .members = true});
    const RunResult result = run(scenario);
    for (const Violation& violation : result.violations) {
      CAPTURE(violation.what);
      CHECK(violation.promise == 0);
    }
    CHECK(result.tally.joined == 1);
    CHECK(result.tally.left == result.tally.left_whole);
    CHECK(result.tally.answered > 0);
    left += result.tally.left;
    handed_on += result.tally.users_handed_on;
  }
  CHECK(left > 0);
  CHECK(handed_on > 0);
}

TEST_CASE(
    "run: several models share one pool, with and without faults, and a seed replays "
    "exactly") {
  int drawn = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    const Scenario scenario = draw_scenario(seed, {.no_faults = seed % 2 == 0});
    if (scenario.models == 1) continue;
    ++drawn;
    const RunResult result = run(scenario);
    for (const Violation& violation : result.violations) {
      CAPTURE(violation.what);
      CHECK(violation.promise == 0);
    }
    CHECK(result.tally.of_others > 0);
    CHECK(result.tally.of_others < result.tally.answered);
    CHECK(result.digest == run(scenario).digest);
  }
  CHECK(drawn >= 2);
}

TEST_CASE("run: faults strike, their phases are counted, and the history contains them") {
  Scenario scenario = draw_scenario(3);
  scenario.faults = {{FaultKind::kill, {1'500'000}, {500'000}, scenario.worker(0)}};
  int lines = 0, strikes = 0;
  RunOptions options;
  options.history = [&](const std::string& line) {
    ++lines;
    strikes += line.find("fault strikes") != line.npos;
  };
  const RunResult result = run(scenario, options);
  CHECK(strikes == 1);
  CHECK(lines > 1'000);
  CHECK(result.injected[static_cast<std::size_t>(FaultKind::kill)] == 1);
  CHECK(result.tally.kills >= 1);
  std::uint32_t met = 0;
  for (const std::uint32_t count : result.coverage[static_cast<std::size_t>(FaultKind::kill)]) met += count;
  CHECK(met > 0);
}

TEST_CASE("run: figures of all metrics and logs are returned on request and are reproducible") {
  Scenario scenario = draw_scenario(3);
  scenario.faults = {{FaultKind::kill, {1'500'000}, {500'000}, scenario.worker(0)}};
  CHECK(run(scenario).figures.empty());
  RunOptions options;
  options.figures = true;
  const RunResult result = run(scenario, options);
  CHECK(result.figures == run(scenario, options).figures);
  int logged = 0, counted = 0;
  for (const std::string& line : result.figures) {
    logged += line.starts_with("logged ");
    counted += line.starts_with("troupe_");
    CHECK_FALSE(line.ends_with(" 0 0"));
  }
  CHECK(logged > 0);
  CHECK(counted > 20);
  CHECK(static_cast<std::size_t>(logged + counted) == result.figures.size());
}

TEST_CASE("run: leftovers are judged after the catalog's blocks are computed, however slowly") {
  Scenario scenario;
  // a dozen seconds for 256 items; whether a worker is full shows only in failed attempts
  scenario.us_per_token = 8'000;
  scenario.items = 1'000;
  scenario.requests_per_s = 0.5;
  scenario.deadline = {5'000'000};
  const RunResult result = run(scenario);
  for (const Violation& violation : result.violations) {
    CAPTURE(violation.what);
    CHECK(violation.promise == 0);
  }
  CHECK(result.tally.answered > 0);
}

TEST_CASE("swarm: sums are the same on one thread and on two") {
  SwarmOptions options{.first = 1, .last = 8};
  const SwarmResult one = run_swarm(options);
  options.threads = 2;
  const SwarmResult two = run_swarm(options);
  CHECK(one.events == two.events);
  CHECK(one.coverage == two.coverage);
  CHECK(one.seeds == 8);
}
