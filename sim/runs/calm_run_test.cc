#include "sim/runs/calm_run.h"

#include <doctest/doctest.h>

using namespace troupe;
using namespace troupe::sim;

namespace {

struct TestRun : CalmRun {
  explicit TestRun(const Scenario& scenario) : CalmRun(scenario) {}
  using CalmRun::clients_, CalmRun::cluster_, CalmRun::end, CalmRun::latencies_ms, CalmRun::metric,
      CalmRun::outcomes;
};

Scenario faulty_scenario() {
  Scenario s;
  s.faults = {{FaultKind::cold_start, {500'000}, {2'000'000}}};
  return s;
}

}  // namespace

TEST_CASE("calm run: faults are left out, and every request has its outcome at the end") {
  TestRun run(faulty_scenario());
  CHECK(run.cluster_.scenario().faults.empty());
  run.cluster_.start();
  run.clients_.start({100'000}, {2'900'000});
  run.cluster_.host().run_until({2'850'000});
  CHECK(run.outcomes() > 0);
  CHECK(run.end().empty());
  CHECK(run.outcomes() == run.clients_.tally().requests);
  CHECK(run.metric(Metric::tokens_computed) > 0);
}

TEST_CASE("calm run: latencies are those of the seconds asked for") {
  TestRun run(faulty_scenario());
  run.cluster_.start();
  run.clients_.start({100'000}, {2'900'000});
  run.end();
  CHECK(run.latencies_ms(0, 3).empty());  // stopped before the first request
  TestRun other(faulty_scenario());
  other.cluster_.start();
  other.clients_.start({100'000}, {2'900'000});
  other.cluster_.host().run_until({4'000'000});
  const std::size_t all = other.latencies_ms(0, 100).size();
  CHECK(all == other.clients_.tally().answered);
  CHECK(other.latencies_ms(0, 1).size() + other.latencies_ms(1, 100).size() == all);
  CHECK(other.latencies_ms(1, 2).size() == other.clients_.seconds().at(1).latency_ms.size());
}
