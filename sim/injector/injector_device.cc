// Injects faults of devices and of host memory: hung, failing or slow devices, NaN results,
// flipped bits, a moved split of the pool.
#include "sim/injector/injector.h"

namespace troupe::sim {

bool Injector::hang_device(const FaultChange& change) {
  bool& hung = cluster_.node(change.fault.node).device.hung;
  hung = change.worst > 0;
  // a hung job never ends, so its process is restarted
  if (!change.on && !hung) bring_back(change.fault.node);
  return alive(change.fault.node);
}

bool Injector::break_device(const FaultChange& change) {
  cluster_.node(change.fault.node).device.broken = change.worst > 0;
  return alive(change.fault.node);
}

bool Injector::compute_nan(const FaultChange& change) {
  cluster_.node(change.fault.node).device.nan = change.worst > 0;
  return alive(change.fault.node);
}

bool Injector::slow_device(const FaultChange& change) {
  const auto& [index, fault, on, worst] = change;
  cluster_.node(fault.node).device.slowness = slowness(fault.kind, fault.node, 3 + 17 * worst);
  return alive(fault.node);
}

// Flips only blocks that nobody reads now: the checksum cannot detect a flip under a reader.
bool Injector::flip_pages(const FaultChange& change) {
  Node& node = cluster_.node(change.fault.node);
  if (!change.on || !node.kv_worker) return false;
  std::vector<const PoolBlock*> idle;
  for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 10'000))
    if (block->pins == 0) idle.push_back(block);
  if (idle.empty()) return false;
  for (int i = 1 + static_cast<int>(change.fault.intensity * 10); i > 0; --i) {
    const PoolBlock* block = idle[random_.below(idle.size())];
    node.pages->strike(block->pages[random_.below(block->pages.size())], random_.next());
    if (cluster_.on_bit_flipped) cluster_.on_bit_flipped(change.fault.node, block->generation);
  }
  return true;
}

bool Injector::move_split(const FaultChange& change) { return apply_split(change.fault.node); }

bool Injector::apply_split(NodeId node) {
  if (!cluster_.node(node).kv_worker) return false;
  const Scenario& s = cluster_.scenario();
  const double worst = strongest(FaultKind::memory_pressure, node);
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

}  // namespace troupe::sim
