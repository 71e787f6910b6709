// Injects faults of devices and of host memory: hung, failing or slow devices, NaN results,
// flipped bits.
#include "sim/injector/device_injector.h"

namespace troupe::sim {

bool DeviceInjector::hang_device(const FaultChange& change) {
  bool& hung = cluster_.node(change.fault.node).device.hung;
  hung = change.worst > 0;
  // a hung job never ends, so its process is restarted
  if (!change.on && !hung) processes_.bring_back(change.fault.node);
  return alive(change.fault.node);
}

bool DeviceInjector::break_device(const FaultChange& change) {
  cluster_.node(change.fault.node).device.broken = change.worst > 0;
  return alive(change.fault.node);
}

bool DeviceInjector::compute_nan(const FaultChange& change) {
  cluster_.node(change.fault.node).device.nan = change.worst > 0;
  return alive(change.fault.node);
}

bool DeviceInjector::slow_device(const FaultChange& change) {
  const Fault& fault = change.fault;
  cluster_.node(fault.node).device.slowness = faults_.slowness(fault.kind, fault.node, 3 + 17 * change.worst);
  return alive(fault.node);
}

// Flips only blocks that nobody reads now: the checksum cannot detect a flip under a reader.
bool DeviceInjector::flip_pages(const FaultChange& change) {
  Node& node = cluster_.node(change.fault.node);
  if (!change.on || !node.kv_worker) return false;
  std::vector<const PoolBlock*> idle;
  for (const PoolBlock* block : node.kv_worker->pool().ready_after(0, 10'000))
    if (block->pins == 0) idle.push_back(block);
  if (idle.empty()) return false;
  for (int i = 1 + static_cast<int>(change.fault.intensity * 10); i > 0; --i) {
    const PoolBlock* block = idle[change.random.below(idle.size())];
    node.pages->strike(block->pages[change.random.below(block->pages.size())], change.random.next());
    if (cluster_.on_bit_flipped) cluster_.on_bit_flipped(change.fault.node, block->generation);
  }
  return true;
}

}  // namespace troupe::sim
