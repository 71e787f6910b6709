// Simulates the coordination store (the cluster's shared keys) for all nodes, with outages for all
// or some.
#include "sim/world/sim_coordination.h"

namespace troupe::sim {
namespace {

Refusal unreachable() {
  return {RefusalKind::unavailable, "coordination_away", "the coordination store does not answer",
          "coordination", "a store that can be reached"};
}

}  // namespace

SimCoordination::SimCoordination(std::uint64_t seed, Duration latency_min, Duration latency_max,
                                 Duration timeout)
    : random_(seed, 0xc00d), latency_min_(latency_min), latency_max_(latency_max), timeout_(timeout) {}

Duration SimCoordination::time_of(Instant now, NodeId asker, const Coordinate& question) {
  const Duration latency = random_.between(latency_min_, latency_max_);
  if (!reaches(asker)) return timeout_;
  Duration time{static_cast<std::int64_t>(static_cast<double>(latency.us) * faults_.slowness)};
  const auto* watch = std::get_if<WatchKey>(&question.what);
  if (watch && !state_.watched(now.us, *watch)) time.us += watch->wait_us;
  return time;
}

std::variant<CoordinationReply, Refusal> SimCoordination::ask(Instant now, NodeId asker,
                                                              const Coordinate& question) {
  const bool answer_lost = chance(random_, faults_.answers_lost);
  if (!reaches(asker)) return unreachable();
  const Revision before = state_.last();
  auto answer = state_.ask(now.us, question);
  if (on_change && state_.last() != before) on_change();
  if (answer_lost) return unreachable();
  return answer;
}

}  // namespace troupe::sim
