// Faults of the disks: they fail, fill, slow down, keep halves of blocks, and lie.
#include "sim/injector/injector.h"

namespace troupe::sim {

bool Injector::set_disk(const Fault& fault, bool on) {
  SimDisk::Faults& faults = cluster_.node(fault.node).disk->faults();
  const double worst = strongest(fault.kind, fault.node);
  switch (fault.kind) {
    case FaultKind::disk_full:
      faults.full = worst > 0;
      break;
    case FaultKind::disk_failing:
      faults.failing = worst > 0;
      break;
    case FaultKind::disk_slow:
      faults.slowness = slowness(fault.kind, fault.node, 1 + 500 * worst);
      break;
    case FaultKind::load_failing:
      faults.loads_lost = worst;
      if (on) restart_empty(fault);
      return false;  // until a load is lost
    case FaultKind::torn_save:
      refresh_torn(fault.node);
      return false;  // until a save is torn
    default:
      return on && corrupt_disk(fault);
  }
  return cluster_.scenario().store && alive(fault.node);
}

// Loads are rare while the pool has what is wanted: strong faults begin with a process that has nothing.
void Injector::restart_empty(const Fault& fault) {
  if (fault.intensity < 0.5 || !kill(fault.node)) return;
  cluster_.host().at(cluster_.now() + Duration{100'000}, [this, node = fault.node] { restart(node); });
}

bool Injector::corrupt_disk(const Fault& fault) {
  SimDisk& disk = *cluster_.node(fault.node).disk;
  const int count = 1 + static_cast<int>(fault.intensity * 20);
  using Lie = bool (SimDisk::*)(SimRandom&);
  constexpr Lie lies[] = {&SimDisk::flip_one, &SimDisk::forge_one, &SimDisk::truncate_one,
                          &SimDisk::revive_one};
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const Lie lie = fault.kind == FaultKind::disk_swapped ? &SimDisk::swap_two : lies[random_.below(4)];
    any = (disk.*lie)(random_) || any;
  }
  return any;
}

// Weak faults: the process dies in the middle of a save, once. Strong ones: the disk is full in the middle of
// every save.
void Injector::refresh_torn(NodeId node) {
  SimDisk::Faults& faults = cluster_.node(node).disk->faults();
  faults.torn = SimDisk::Torn::none;
  for (const std::size_t index : active_) {
    const Fault& fault = faults_[index];
    if (fault.kind != FaultKind::torn_save || fault.node != node) continue;
    if (fault.intensity >= 0.5)
      faults.torn = SimDisk::Torn::by_full_disk;
    else if (faults.torn == SimDisk::Torn::none && !acted_.contains(index))
      faults.torn = SimDisk::Torn::by_death;
  }
}

// What waits for a job to spoil counts as injected when it has.
void Injector::on_struck(NodeId node, FaultKind kind) {
  const bool dies =
      kind == FaultKind::torn_save && cluster_.node(node).disk->faults().torn == SimDisk::Torn::by_death;
  const PhaseSet met = phases_now();
  for (const std::size_t index : active_)
    if (faults_[index].kind == kind && faults_[index].node == node) note_acted(index, met);
  refresh_torn(node);
  if (!dies) return;
  if (trace) trace("node " + std::to_string(node) + " dies while it saves a block");
  kill(node);
  cluster_.host().at(cluster_.now() + Duration{300'000}, [this, node] { restart(node); });
}

}  // namespace troupe::sim
