#pragma once
// Coordination store of the simulated cluster: one CoordinationState under virtual time. The ports of
// routers and cache-metas reach it over a connection that may be slow, cut or gone. A request is answered
// with the state at the end of its job. A watch without an immediate answer takes its whole wait.
#include <cstdint>
#include <functional>
#include <set>
#include <variant>

#include "runtime/actor/core.h"
#include "runtime/coordination/coordination_state.h"
#include "sim/base/random.h"

namespace troupe::sim {

class SimCoordination {
 public:
  struct Faults {
    bool away = false;         // for all nodes: unavailable after `timeout`
    std::set<NodeId> cut_off;  // the same for these nodes
    double slowness = 1;
    double answers_lost = 0;  // share of the requests that are refused although they took effect
  };

  SimCoordination(std::uint64_t seed, Duration latency_min, Duration latency_max, Duration timeout);

  Faults& faults() { return faults_; }
  // Returns how long this request takes if it is sent now.
  Duration time_of(Instant now, NodeId asker, const Coordinate& question);
  std::variant<CoordinationReply, Refusal> ask(Instant now, NodeId asker, const Coordinate& question);

  CoordinationState& state() { return state_; }  // for the world's own setup and for judges
  // Called after each request that changed something, since some states last less than the interval of a
  // judge's checks.
  std::function<void()> on_change;

 private:
  bool reaches(NodeId asker) const { return !faults_.away && !faults_.cut_off.contains(asker); }

  CoordinationState state_;
  RandomStream random_;
  Duration latency_min_, latency_max_, timeout_;
  Faults faults_;
};

}  // namespace troupe::sim
