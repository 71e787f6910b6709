// Injects faults of the disks: they fail, fill up, slow down, keep halves of blocks, or return
// wrong data.
#include "sim/injector/injector.h"

namespace troupe::sim {

bool Injector::fill_disk(const FaultChange& change) {
  cluster_.node(change.fault.node).disk->faults().full = change.worst > 0;
  return has_disk(change.fault.node);
}

bool Injector::fail_disk(const FaultChange& change) {
  cluster_.node(change.fault.node).disk->faults().failing = change.worst > 0;
  return has_disk(change.fault.node);
}

bool Injector::slow_disk(const FaultChange& change) {
  const auto& [index, fault, on, worst] = change;
  cluster_.node(fault.node).disk->faults().slowness = slowness(fault.kind, fault.node, 1 + 500 * worst);
  return has_disk(fault.node);
}

// Loads are rare while the pool has the requested blocks, so strong faults begin with an empty process.
bool Injector::lose_loads(const FaultChange& change) {
  const auto& [index, fault, on, worst] = change;
  cluster_.node(fault.node).disk->faults().loads_lost = worst;
  if (on && fault.intensity >= 0.5 && kill(fault.node))
    cluster_.host().at(cluster_.now() + Duration{100'000}, [this, node = fault.node] { restart(node); });
  return false;  // acts when a load is lost
}

bool Injector::tear_saves(const FaultChange& change) {
  refresh_torn(change.fault.node);
  return false;  // acts when a save is torn
}

bool Injector::swap_blocks(const FaultChange& change) {
  return change.on && damage_record(change.fault, std::array{&SimDisk::swap_two});
}

bool Injector::damage_blocks(const FaultChange& change) {
  return change.on && damage_record(change.fault, std::array{&SimDisk::flip_one, &SimDisk::forge_one,
                                                             &SimDisk::truncate_one, &SimDisk::revive_one});
}

bool Injector::damage_record(const Fault& fault, std::span<const DiskDamage> lies) {
  SimDisk& disk = *cluster_.node(fault.node).disk;
  bool any = false;
  for (int i = 1 + static_cast<int>(fault.intensity * 20); i > 0; --i) {
    const DiskDamage one = lies.size() == 1 ? lies[0] : lies[random_.below(lies.size())];
    any = (disk.*one)(random_) || any;
  }
  return any;
}

// Weak faults: the process dies once in the middle of a save. Strong faults: the disk is full in the middle
// of every save.
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

// A fault that waits for a job counts as injected once it has acted.
void Injector::on_struck(NodeId node, FaultKind kind) {
  const bool dies =
      kind == FaultKind::torn_save && cluster_.node(node).disk->faults().torn == SimDisk::Torn::by_death;
  const PhaseSet met = phases_now();
  for (const std::size_t index : active_)
    if (faults_[index].kind == kind && faults_[index].node == node) note_acted(index, met);
  refresh_torn(node);
  if (!dies) return;
  if (history) history("node " + std::to_string(node) + " dies while it saves a block");
  kill(node);
  cluster_.host().at(cluster_.now() + Duration{300'000}, [this, node] { restart(node); });
}

}  // namespace troupe::sim
