#pragma once
// The hard state of the simulated cluster: one CoordinationState under virtual time, asked by the router's
// and the cache-meta's ports over a way that may be slow, cut or gone. A question is answered as of the end
// of its job. A watch that is not answered at once takes its whole wait.
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
    bool away = false;         // for everybody: refusals 503 after `timeout`
    std::set<NodeId> cut_off;  // for these nodes
    double slowness = 1;
    double answers_lost = 0;  // share of the questions that are refused although they took effect
  };

  SimCoordination(std::uint64_t seed, Duration latency_min, Duration latency_max, Duration timeout);

  Faults& faults() { return faults_; }
  // How long this question takes if it is asked now.
  Duration time_of(Instant now, NodeId asker, const Coordinate& question);
  std::variant<Coordinated, Refusal> ask(Instant now, NodeId asker, const Coordinate& question);

  CoordinationState& state() { return state_; }  // for the world's own setup and for checkers
  // Called after each question that changed something: some states last less than a checker's looks.
  std::function<void()> on_change;

 private:
  bool reaches(NodeId asker) const { return !faults_.away && !faults_.cut_off.contains(asker); }

  CoordinationState state_;
  SimRandom random_;
  Duration latency_min_, latency_max_, timeout_;
  Faults faults_;
};

}  // namespace troupe::sim
