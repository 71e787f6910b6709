// Faults of the network: nodes and halves that are cut off, links in trouble, bulk transfers that break.
#include <algorithm>

#include "sim/injector.h"

namespace troupe::sim {

void Injector::cut_halves(NodeId bridge, bool on) {
  SimNetwork& network = cluster_.host().network();
  const NodeId middle = cluster_.scenario().nodes() / 2;
  for (const auto& [a, left] : cluster_.nodes())
    for (const auto& [b, right] : cluster_.nodes()) {
      if (a > middle || b <= middle || a == bridge || b == bridge) continue;
      for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}})
        on ? network.cut(from, to) : network.mend(from, to);
    }
}

// What all active faults together make of the links: those of everywhere change the default, those of a node
// its own.
void Injector::refresh_links() {
  const auto troubled = [&](NodeId node) {
    SimNetwork::Link link = cluster_.scenario().link;
    const auto ppm = [&](FaultKind kind, double most) {
      return static_cast<std::uint32_t>(std::max(strongest(kind, 0), strongest(kind, node)) * most);
    };
    link.lose_ppm = ppm(FaultKind::loss, 300'000);
    link.double_ppm = ppm(FaultKind::doubling, 300'000);
    link.reorder_ppm = ppm(FaultKind::reordering, 500'000);
    const double delay = std::max(strongest(FaultKind::delay, 0), strongest(FaultKind::delay, node));
    link.latency_min.us += static_cast<std::int64_t>(delay * 20'000);
    link.latency_max.us += static_cast<std::int64_t>(delay * 150'000);
    return link;
  };
  SimNetwork& network = cluster_.host().network();
  network.set_default(troubled(0));
  for (const auto& [id, node] : cluster_.nodes())
    for (const auto& [other, peer] : cluster_.nodes())
      if (id != other) network.clear_link(id, other);
  for (const auto& [id, node] : cluster_.nodes()) {
    const bool own = std::ranges::any_of(active_, [&, id = id](std::size_t index) {
      const FaultKind kind = faults_[index].kind;
      return faults_[index].node == id && (kind == FaultKind::loss || kind == FaultKind::doubling ||
                                           kind == FaultKind::reordering || kind == FaultKind::delay);
    });
    if (!own) continue;
    for (const auto& [other, peer] : cluster_.nodes()) {
      if (id == other) continue;
      network.set_link(id, other, troubled(id));
      network.set_link(other, id, troubled(id));
    }
  }
}

void Injector::set_network(const Fault& fault, bool on) {
  SimNetwork& network = cluster_.host().network();
  switch (fault.kind) {
    case FaultKind::isolate:
      return on ? network.isolate(fault.node) : network.rejoin(fault.node);
    case FaultKind::one_way:
      for (const auto& [other, node] : cluster_.nodes())
        if (other != fault.node) on ? network.cut(fault.node, other) : network.mend(fault.node, other);
      return;
    case FaultKind::bridge:
      return cut_halves(fault.peer, on);
    case FaultKind::transfer_reset:
      cluster_.node(fault.node).transfer.reset = strongest(fault.kind, fault.node);
      return;
    case FaultKind::transfer_slow:
      cluster_.node(fault.node).transfer.slowness = 1 + 20'000 * strongest(fault.kind, fault.node);
      return;
    case FaultKind::transfer_corruption:
      cluster_.node(fault.node).transfer.corrupted = strongest(fault.kind, fault.node);
      return;
    default:
      return refresh_links();
  }
}

}  // namespace troupe::sim
