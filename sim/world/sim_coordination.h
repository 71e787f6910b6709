#pragma once
// Coordination store of the simulated cluster: one CoordinationState under virtual time. The ports of
// routers and cache-metas reach it over a connection that may be slow, cut or gone. A request is answered
// with the state at the end of its job. A watch without an immediate answer takes its whole wait.
//
// The store may lose its data or go back to a copy. Like the adapter of etcd, a process then raises the
// revisions above those that it has seen, with its first request; a process that is not simulated to ask
// (a worker, which polls the members) raises them within a second. The members are kept: an operator
// restores them by hand (docs/guides/scale.md).
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
  // Keys without leases before the last loss: what is served until they are written again.
  const CoordinationState::Keys& keys_before_loss() const { return before_loss_; }
  void keep_copy() { copy_ = state_.keys(), copied_last_ = state_.last(); }
  bool has_copy() const { return copied_last_ > 0; }
  void lose_data(Instant now);        // the store is empty
  void go_back_to_copy(Instant now);  // requires has_copy; keys keep their revisions, leases end
  Instant lost_at() const { return lost_at_; }
  // A process on this node starts, and knows nothing of what earlier ones have seen.
  void forget(NodeId node) { seen_.erase(node); }
  // Called after each request that changed something, since some states last less than the interval of a
  // judge's checks.
  std::function<void()> on_change;

 private:
  struct SeenRevisions {
    std::uint64_t history = 0;  // 0: none
    Revision highest = 0;
  };
  static constexpr Revision raise_margin = 1'000;
  static constexpr Duration poll{1'000'000};  // of the members, by every process

  void replace(Instant now, CoordinationState::Keys keys, Revision last);
  void raise(Instant now, const SeenRevisions& seen);
  bool reaches(NodeId asker) const { return !faults_.away && !faults_.cut_off.contains(asker); }

  CoordinationState state_;
  CoordinationState::Keys copy_, before_loss_;
  Revision copied_last_ = 0, lost_last_ = 0;
  std::uint64_t history_ = 1;  // of the data: another one after they were lost
  std::map<NodeId, SeenRevisions> seen_;
  std::optional<Instant> polled_by_;  // when the processes that do not ask here have raised the revisions
  Instant lost_at_{-1};
  RandomStream random_;
  Duration latency_min_, latency_max_, timeout_;
  Faults faults_;
};

}  // namespace troupe::sim
