// Kills, pauses, restarts and drains the processes of the simulated cluster, and changes their clocks
// and the split of their pools.
#include "sim/injector/process_injector.h"

#include <algorithm>
#include <cmath>

namespace troupe::sim {
namespace {

constexpr Duration drain_first{20'000}, drain_every{50'000};

}  // namespace

ProcessInjector::ProcessInjector(Cluster& cluster, Clients& clients, Violations& violations,
                                 const ActiveFaults& faults,
                                 std::function<void(const std::string& line)> history)
    : cluster_(cluster),
      clients_(clients),
      violations_(violations),
      faults_(faults),
      history_(std::move(history)) {
  cluster_.host().set_server(operator_, [this](Address from, Message message) {
    if (const auto* status = std::get_if<StatusReply>(&message)) on_status(from, *status);
  });
}

bool ProcessInjector::die(const FaultChange& change) {
  if (change.on) return kill(change.fault.node);
  restart(change.fault.node);
  return true;
}

bool ProcessInjector::die_wiped(const FaultChange& change) {
  const NodeId node = change.fault.node;
  if (!change.on) {
    restart(node);
    return true;
  }
  const bool lived = kill(node), remembered = !cluster_.node(node).disk->records().empty();
  cluster_.wipe(node);
  return lived || remembered;
}

bool ProcessInjector::die_all(const FaultChange& change) {
  bool any = false;
  for (auto& [id, node] : cluster_.nodes()) {
    if (change.on)
      any = kill(id) || any;
    else
      restart(id);
  }
  return any;
}

bool ProcessInjector::stop(const FaultChange& change) {
  const NodeId node = change.fault.node;
  const bool ran = alive(node) && !cluster_.host().paused(node);
  if (change.on) cluster_.pause(node);
  if (faults_.count(FaultKind::pause, node) == 0) cluster_.resume(node);
  return ran;
}

bool ProcessInjector::alarm(const FaultChange& change) {
  const auto [lost, reported] = std::pair{change.fault.peer, change.fault.node};
  if (!change.on || lost == reported || !alive(lost) || !alive(reported)) return false;
  cluster_.host().announce_lost(lost, reported);
  return true;
}

bool ProcessInjector::drift(const FaultChange& change) {
  refresh_clock(change.fault.node);
  return alive(change.fault.node);
}

bool ProcessInjector::kill(NodeId node) {
  if (!alive(node)) return false;
  cluster_.kill(node);
  clients_.cut_off(node);
  return true;
}

void ProcessInjector::restart(NodeId node) {
  const std::size_t still_down = faults_.count(FaultKind::kill, node) + faults_.count(FaultKind::wipe, node) +
                                 faults_.count(FaultKind::cold_start);
  if (still_down > 0 || alive(node)) return;
  cluster_.restart(node);
  if (faults_.count(FaultKind::pause, node) > 0) cluster_.pause(node);
  if (faults_.count(FaultKind::memory_pressure, node) > 0) apply_split(node);
}

void ProcessInjector::kill_for(NodeId node, Duration down, const std::string& reason) {
  if (!reason.empty()) history_(reason);
  kill(node);
  cluster_.host().at(cluster_.now() + down, [this, node] { restart(node); });
}

void ProcessInjector::bring_back(NodeId node) {
  kill(node);
  restart(node);
}

void ProcessInjector::heal() {
  for (auto& [id, node] : cluster_.nodes()) {
    if (node.draining && cluster_.now() >= draining_[id].give_up) judge_drained(node);
    if (node.draining) bring_back(id);
    node.draining = false;
    cluster_.restart(id);
  }
}

// ---- clocks and splits ----

void ProcessInjector::set_slow_clock(NodeId node, bool slow) {
  if (slow)
    slow_clocks_.insert(node);
  else
    slow_clocks_.erase(node);
  refresh_clock(node);
}

// The clock with the largest deviation counts. A deposed leader that must trust its expired lease gets the
// slowest clock.
void ProcessInjector::refresh_clock(NodeId node) {
  double off = 0;
  faults_.for_each(FaultKind::clock_drift, [&](std::size_t, const Fault& fault) {
    const double drift = 0.1 * fault.intensity - 0.05;
    if (fault.node == node && std::abs(drift) >= std::abs(off)) off = drift;
  });
  if (slow_clocks_.contains(node)) off = -0.5;
  cluster_.host().set_clock_rate(node, 1 + off);
}

bool ProcessInjector::move_split(const FaultChange& change) { return apply_split(change.fault.node); }

bool ProcessInjector::apply_split(NodeId node) {
  if (!cluster_.node(node).kv_worker) return false;
  const Scenario& s = cluster_.scenario();
  const double worst = faults_.strongest(FaultKind::memory_pressure, node);
  const auto items = static_cast<std::uint64_t>((worst > 0 ? worst : s.item_share) * s.pages);
  // Users get the rest or half of it. Rows get their own part, if they have an area, and then at most half
  // of the rest.
  const std::uint64_t left = s.pages - items;
  const auto rows = std::min(static_cast<std::uint64_t>((worst > 0 ? worst : s.row_share) * s.pages), left);
  std::vector<AreaSplit> areas{{items, 0}, {worst > 0 ? left / 2 : left - (s.page_rows > 0 ? rows : 0), 0}};
  if (s.page_rows > 0) areas.push_back({worst > 0 ? std::min(rows, left / 2) : rows, 0});
  cluster_.host().post({node, Role::kv_worker}, {node, Role::allocator},
                       SetSplit{cluster_.host().incarnation(node), ++split_epoch_, areas});
  return true;
}

// ---- drain ----

// Rolling restart by an operator: clients avoid the node, it is asked to drain until it reports that it
// has, and then it is restarted.
bool ProcessInjector::drain(const FaultChange& change) {
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

void ProcessInjector::on_status(Address from, const StatusReply& status) {
  const bool drained = std::ranges::any_of(
      status.fields, [](const StatusField& f) { return f.name == "drained" && f.value == "yes"; });
  if (drained) draining_[cluster_.actor_ids().node_of(from.node)].left.erase(from);
}

// Promise 13: a node that reports "drained" has nothing left, and in a drill every node gets there.
void ProcessInjector::judge_drained(const Node& node) {
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

void ProcessInjector::poll_drain(NodeId id) {
  Node& node = cluster_.node(id);
  if (faults_.healed() || !node.draining) return;
  const DrainState& draining = draining_[id];
  if (draining.left.empty() || cluster_.now() >= draining.give_up) {
    judge_drained(node);
    node.draining = false;
    history_("node " + std::to_string(id) + " is restarted after its drain");
    return bring_back(id);
  }
  // A command still in flight when all faults are healed would reach the new process.
  const Instant calm = Instant{} + cluster_.scenario().warm_up + cluster_.scenario().safety;
  if (cluster_.now() + Duration{20'000} >= calm) return;
  for (const Address actor : draining.left) cluster_.host().post(actor, operator_, Drain{1, true});
  cluster_.host().at(cluster_.now() + drain_every, [this, id] { poll_drain(id); });
}

}  // namespace troupe::sim
