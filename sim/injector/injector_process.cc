// Injects faults of processes: they are killed, paused, reported lost, given drifting clocks, or
// drained by operators.
#include <cmath>

#include "sim/injector/injector.h"

namespace troupe::sim {
namespace {

constexpr Duration drain_first{20'000}, drain_every{50'000};

}  // namespace

bool Injector::die(const FaultChange& change) {
  if (change.on) return kill(change.fault.node);
  restart(change.fault.node);
  return true;
}

bool Injector::die_wiped(const FaultChange& change) {
  const NodeId node = change.fault.node;
  if (!change.on) {
    restart(node);
    return true;
  }
  const bool lived = kill(node), remembered = !cluster_.node(node).disk->records().empty();
  cluster_.wipe(node);
  return lived || remembered;
}

bool Injector::die_all(const FaultChange& change) {
  bool any = false;
  for (auto& [id, node] : cluster_.nodes()) {
    if (change.on)
      any = kill(id) || any;
    else
      restart(id);
  }
  return any;
}

bool Injector::stop(const FaultChange& change) {
  const NodeId node = change.fault.node;
  const bool ran = alive(node) && !cluster_.host().paused(node);
  if (change.on) cluster_.pause(node);
  if (active(FaultKind::pause, node) == 0) cluster_.resume(node);
  return ran;
}

bool Injector::alarm(const FaultChange& change) {
  const auto [lost, reported] = std::pair{change.fault.peer, change.fault.node};
  if (!change.on || lost == reported || !alive(lost) || !alive(reported)) return false;
  cluster_.host().announce_lost(lost, reported);
  return true;
}

bool Injector::drift(const FaultChange& change) {
  refresh_clock(change.fault.node);
  return alive(change.fault.node);
}

bool Injector::kill(NodeId node) {
  if (!alive(node)) return false;
  cluster_.kill(node);
  clients_.cut_off(node);
  return true;
}

void Injector::restart(NodeId node) {
  const std::size_t still_down =
      active(FaultKind::kill, node) + active(FaultKind::wipe, node) + active(FaultKind::cold_start);
  if (still_down > 0 || alive(node)) return;
  cluster_.restart(node);
  if (active(FaultKind::pause, node) > 0) cluster_.pause(node);
  if (active(FaultKind::memory_pressure, node) > 0) apply_split(node);
}

void Injector::bring_back(NodeId node) {
  kill(node);
  restart(node);
}

// The clock with the largest deviation counts. A deposed leader that must trust its expired lease gets the
// slowest clock.
void Injector::refresh_clock(NodeId node) {
  double off = 0;
  for (const std::size_t index : active_) {
    const Fault& fault = faults_[index];
    if (fault.kind != FaultKind::clock_drift || fault.node != node) continue;
    const double drift = 0.1 * fault.intensity - 0.05;
    if (std::abs(drift) >= std::abs(off)) off = drift;
  }
  for (const auto& [index, deposed] : deposed_)
    if (deposed.leader == node && !deposed.late) off = -0.5;
  cluster_.host().set_clock_rate(node, 1 + off);
}

// ---- drain ----

// Rolling restart by an operator: clients avoid the node, it is asked to drain until it reports that it
// has, and then it is restarted.
bool Injector::drain(const FaultChange& change) {
  Node& node = cluster_.node(change.fault.node);
  if (!change.on || !alive(node.id) || node.draining) return false;
  node.draining = true;
  DrainState& draining = draining_[node.id];
  draining.process = cluster_.host().incarnation(node.id);
  std::set<Address>& left = draining.left;
  left.clear();
  for (std::uint32_t model = 0; model < cluster_.actor_ids().models; ++model) {
    const NodeId number = cluster_.actor_ids().number(node.id, model);
    if (node.is_router) left.insert({number, Role::router});
    if (node.is_worker) left.insert({number, Role::inference_worker});
  }
  if (node.is_cache_meta) left.insert({node.id, Role::cache_meta});
  const Scenario& s = cluster_.scenario();
  const Instant first = cluster_.now() + drain_first;
  draining.give_up = first + Duration{s.deadline.us + 2 * s.heartbeat.us} + drain_every;
  cluster_.host().at(first, [this, id = node.id] { poll_drain(id); });
  return true;
}

// Promise 13: a node that reports "drained" has nothing left, and in a drill every node gets there.
void Injector::judge_drained(const Node& node) {
  const auto report = [&](const std::string& what) {
    violations_.report(13, "node " + std::to_string(node.id) + " " + what, cluster_.now());
  };
  const DrainState& draining = draining_[node.id];
  if (cluster_.host().incarnation(node.id) != draining.process) return;
  if (!draining.left.empty()) {
    if (cluster_.scenario().drill) report("has not drained long after every request's deadline");
    return;
  }
  if (node.router && clients_.open_at(node.id) > 0)
    report("reports that it is drained but owes its clients answers");
  if (std::ranges::any_of(node.inferences(), [](const auto* inference) { return inference->tasks() > 0; }))
    report("reports that it is drained but has plans left");
}

void Injector::poll_drain(NodeId id) {
  Node& node = cluster_.node(id);
  if (healed_ || !node.draining) return;
  const DrainState& draining = draining_[id];
  if (draining.left.empty() || cluster_.now() >= draining.give_up) {
    judge_drained(node);
    node.draining = false;
    if (history) history("node " + std::to_string(id) + " is restarted after its drain");
    return bring_back(id);
  }
  // A command still in flight when all faults are healed would reach the new process.
  const Instant calm = Instant{} + cluster_.scenario().warm_up + cluster_.scenario().safety;
  if (cluster_.now() + Duration{20'000} >= calm) return;
  for (const Address actor : draining.left) cluster_.host().post(actor, operator_, Drain{1, true});
  cluster_.host().at(cluster_.now() + drain_every, [this, id] { poll_drain(id); });
}

}  // namespace troupe::sim
