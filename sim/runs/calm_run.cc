// Drives a simulated cluster without faults for load runs.
#include "sim/runs/calm_run.h"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

Scenario without_faults(Scenario scenario) {
  scenario.faults.clear();
  return scenario;
}

}  // namespace

CalmRun::CalmRun(Scenario scenario)
    : cluster_(without_faults(std::move(scenario)), violations_), clients_(cluster_, violations_) {}

std::uint64_t CalmRun::outcomes() {
  const Tally& tally = clients_.tally();
  return tally.answered + tally.refused + tally.expired;
}

void CalmRun::await_precomputed(Instant latest, Duration interval) {
  while (cluster_.works_in_background() && cluster_.now() < latest)
    cluster_.host().run_until(cluster_.now() + interval);
}

std::vector<float> CalmRun::latencies_ms(std::size_t from_s, std::size_t to_s) const {
  std::vector<float> latencies;
  const auto& seconds = clients_.seconds();
  for (std::size_t i = from_s; i < std::min(seconds.size(), to_s); ++i)
    latencies.insert(latencies.end(), seconds[i].latency_ms.begin(), seconds[i].latency_ms.end());
  return latencies;
}

std::vector<Violation> CalmRun::end() {
  clients_.stop();
  cluster_.host().run_until(cluster_.now() + Duration{2 * cluster_.scenario().deadline.us});
  clients_.check_overdue();
  return violations_.kept();
}

}  // namespace troupe::sim
