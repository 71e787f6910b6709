// Faults of processes: they die, stop, are reported dead, have clocks of their own, and are drained by
// operators.
#include "sim/injector.h"

namespace troupe::sim {

void Injector::kill(NodeId node) {
  if (!cluster_.host().alive(node)) return;
  cluster_.kill(node);
  clients_.cut_off(node);
}

void Injector::restart(NodeId node) {
  const bool still_down = active(FaultKind::kill, node) + active(FaultKind::wipe, node) > 0;
  if (!still_down) cluster_.restart(node);
}

void Injector::bring_back(NodeId node) {
  kill(node);
  cluster_.restart(node);
}

void Injector::set_process(const Fault& fault, bool on) {
  SimHost& host = cluster_.host();
  switch (fault.kind) {
    case FaultKind::kill:
    case FaultKind::wipe:
      if (!on) return restart(fault.node);
      kill(fault.node);
      if (fault.kind == FaultKind::wipe) cluster_.wipe(fault.node);
      return;
    case FaultKind::pause:
      if (on) return cluster_.pause(fault.node);
      if (active(FaultKind::pause, fault.node) == 0) cluster_.resume(fault.node);
      return;
    case FaultKind::false_alarm:
      if (on && fault.peer != fault.node) host.announce_lost(fault.peer, fault.node);
      return;
    case FaultKind::clock_drift:
      return host.set_clock_rate(fault.node, on ? 0.95 + 0.1 * fault.intensity : 1.0);
    case FaultKind::drain:
      if (on) start_drain(fault);
      return;
    default:  // cold_start
      for (auto& [id, node] : cluster_.nodes()) {
        if (on) kill(id);
        if (!on) restart(id);
      }
  }
}

// ---- drain ----

// An operator's rolling restart: nothing new is sent to the node, it is asked to drain until it says that it
// has, and then restarted.
void Injector::start_drain(const Fault& fault) {
  Node& node = cluster_.node(fault.node);
  if (!cluster_.host().alive(node.id) || node.draining) return;
  node.draining = true;
  std::set<Role>& roles = draining_[node.id];
  if (node.is_router) roles.insert(Role::router);
  if (node.is_cache_meta) roles.insert(Role::cache_meta);
  if (node.is_worker) roles.insert(Role::inference_worker);
  const Instant give_up = cluster_.now() + Duration{3 * cluster_.scenario().deadline.us};
  cluster_.host().at(cluster_.now() + Duration{20'000},
                     [this, id = node.id, give_up] { poll_drain(id, give_up); });
}

// Promise 13: who says "drained" has nothing left; and in a drill everybody gets there.
void Injector::judge_drained(const Node& node) {
  const auto report = [&](const std::string& what) {
    violations_.report(13, "node " + std::to_string(node.id) + " " + what, cluster_.now());
  };
  if (!draining_[node.id].empty()) {
    if (cluster_.scenario().drill) report("has not drained long after every request's deadline");
    return;
  }
  if (node.router && clients_.open_at(node.id) > 0)
    report("says that it is drained, and owes its clients answers");
  if (node.inference && node.inference->tasks() > 0) report("says that it is drained, and has plans left");
}

void Injector::poll_drain(NodeId id, Instant give_up) {
  Node& node = cluster_.node(id);
  if (healed_ || !node.draining) return;
  if (draining_[id].empty() || cluster_.now() >= give_up) {
    judge_drained(node);
    node.draining = false;
    if (trace) trace("node " + std::to_string(id) + " is restarted after its drain");
    return bring_back(id);
  }
  // A command that is still under way when all is healed would meet the new process.
  const Instant calm = Instant{} + cluster_.scenario().warm_up + cluster_.scenario().safety;
  if (cluster_.now() + Duration{20'000} >= calm) return;
  for (const Role role : draining_[id]) cluster_.host().post({id, role}, operator_, Drain{1, true});
  cluster_.host().at(cluster_.now() + Duration{50'000}, [this, id, give_up] { poll_drain(id, give_up); });
}

}  // namespace troupe::sim
