// Faults of the devices and of the memory beside them.
#include "sim/injector.h"

namespace troupe::sim {

void Injector::set_device(const Fault& fault, bool on) {
  DeviceFaults& device = cluster_.node(fault.node).device;
  switch (fault.kind) {
    case FaultKind::device_hang:
      device.hung = active(fault.kind, fault.node) > 0;
      if (!on && !device.hung) bring_back(fault.node);  // what hangs hangs until then
      return;
    case FaultKind::device_error:
      device.broken = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::device_nan:
      device.nan = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::slow_node:
      device.slowness = active(fault.kind, fault.node) > 0 ? 3 + 17 * strongest(fault.kind, fault.node) : 1;
      return;
    case FaultKind::memory_corruption:
      if (on) corrupt_memory(fault);
      return;
    default:  // memory_pressure
      return squeeze(fault, on);
  }
}

// Only blocks that nobody reads now: a flip under a reader is what the checksum cannot see.
void Injector::corrupt_memory(const Fault& fault) {
  Node& node = cluster_.node(fault.node);
  if (!node.kv_worker) return;
  std::vector<const PoolBlock*> idle;
  for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 10'000))
    if (block->pins == 0) idle.push_back(block);
  for (int i = 1 + static_cast<int>(fault.intensity * 10); i > 0 && !idle.empty(); --i) {
    const PoolBlock* block = idle[random_.below(idle.size())];
    node.pages->flip(block->pages[random_.below(block->pages.size())], random_.next());
  }
}

void Injector::squeeze(const Fault& fault, bool on) {
  if (!cluster_.node(fault.node).kv_worker) return;
  const Scenario& s = cluster_.scenario();
  const double share = on ? fault.intensity : s.item_share;
  const auto items = static_cast<std::uint64_t>(share * s.pages);
  cluster_.host().post({fault.node, Role::kv_worker}, {fault.node, Role::allocator},
                       SetSplit{cluster_.host().incarnation(fault.node), ++split_epoch_, items,
                                on ? (s.pages - items) / 2 : s.pages - items});
}

}  // namespace troupe::sim
