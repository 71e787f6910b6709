// Injects faults of the network: isolated nodes and halves, degraded links, broken bulk transfers.
// The network itself counts cuts; everything else is recomputed from the active faults.
#include "sim/injector/network_injector.h"

#include <algorithm>

namespace troupe::sim {

bool NetworkInjector::cut_off(const FaultChange& change) {
  SimNetwork& network = cluster_.host().network();
  change.on ? network.isolate(change.fault.node) : network.rejoin(change.fault.node);
  return true;
}

// Nodes that have joined in the meantime were not cut off.
bool NetworkInjector::mend_all(std::size_t index) {
  for (const auto& [from, to] : cut_[index]) cluster_.host().network().mend(from, to);
  cut_.erase(index);
  return true;
}

void NetworkInjector::cut(std::size_t index, NodeId from, NodeId to) {
  cluster_.host().network().cut(from, to);
  cut_[index].emplace_back(from, to);
}

bool NetworkInjector::cut_one_way(const FaultChange& change) {
  if (!change.on) return mend_all(change.index);
  const NodeId from = change.fault.node;
  for (const auto& [other, node] : cluster_.nodes())
    if (other != from) cut(change.index, from, other);
  return cluster_.nodes().size() > 1;
}

bool NetworkInjector::cut_halves(const FaultChange& change) {
  if (!change.on) return mend_all(change.index);
  const NodeId bridge = change.fault.peer, middle = cluster_.scenario().nodes() / 2;
  bool any = false;
  for (const auto& [a, left] : cluster_.nodes())
    for (const auto& [b, right] : cluster_.nodes()) {
      if (a > middle || b <= middle || a == bridge || b == bridge) continue;
      any = true;
      cut(change.index, a, b);
      cut(change.index, b, a);
    }
  return any;
}

bool NetworkInjector::reset_pulls(const FaultChange& change) {
  cluster_.node(change.fault.node).transfer.reset = change.worst;
  return has_peers();
}

bool NetworkInjector::slow_pulls(const FaultChange& change) {
  cluster_.node(change.fault.node).transfer.slowness = 1 + 20'000 * change.worst;
  return has_peers();
}

bool NetworkInjector::damage_pulls(const FaultChange& change) {
  cluster_.node(change.fault.node).transfer.corrupted = change.worst;
  return has_peers();
}

bool NetworkInjector::degrade_links(const FaultChange&) {
  refresh_links();
  return cluster_.nodes().size() > 1;
}

// Sets the links to the effect of all active faults together: faults on all links change the default,
// faults on a node change its links.
void NetworkInjector::refresh_links() {
  SimNetwork& network = cluster_.host().network();
  network.set_default(degraded_link(0));
  for (const auto& [id, node] : cluster_.nodes())
    for (const auto& [other, peer] : cluster_.nodes())
      if (id != other) network.clear_link(id, other);
  for (const auto& [id, node] : cluster_.nodes()) {
    const bool own = faults_.count(FaultKind::loss, id) + faults_.count(FaultKind::doubling, id) +
                         faults_.count(FaultKind::reordering, id) + faults_.count(FaultKind::delay, id) >
                     0;
    if (!own) continue;
    for (const auto& [other, peer] : cluster_.nodes()) {
      if (id == other) continue;
      network.set_link(id, other, degraded_link(id));
      network.set_link(other, id, degraded_link(id));
    }
  }
  delay_commands();
}

SimNetwork::Link NetworkInjector::degraded_link(NodeId node) const {
  SimNetwork::Link link = cluster_.scenario().link;
  const auto worst = [&](FaultKind kind) {
    return std::max(faults_.strongest(kind, 0), faults_.strongest(kind, node));
  };
  const auto ppm = [&](FaultKind kind, double most) {
    return static_cast<std::uint32_t>(worst(kind) * most);
  };
  link.lose_ppm = ppm(FaultKind::loss, 300'000);
  link.double_ppm = ppm(FaultKind::doubling, 300'000);
  link.reorder_ppm = ppm(FaultKind::reordering, 500'000);
  const double delay = worst(FaultKind::delay);
  link.latency_min.us += static_cast<std::int64_t>(delay * 20'000);
  link.latency_max.us += static_cast<std::int64_t>(delay * 150'000);
  return link;
}

void NetworkInjector::set_late_commands(NodeId leader, bool late) {
  if (late)
    late_leaders_.insert(leader);
  else
    late_leaders_.erase(leader);
  refresh_links();
}

void NetworkInjector::delay_commands() {
  SimNetwork& network = cluster_.host().network();
  const std::int64_t lease = 5 * cluster_.scenario().heartbeat.us;
  for (const NodeId leader : late_leaders_)
    for (const auto& [id, node] : cluster_.nodes()) {
      if (!node.is_worker || id == leader) continue;
      SimNetwork::Link link = network.link(leader, id);
      link.latency_min.us += lease;
      link.latency_max.us += lease * 8 / 5;
      network.set_link(leader, id, link);
    }
}

}  // namespace troupe::sim
