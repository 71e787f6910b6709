// Injects faults of the disks: they fail, fill up, slow down, keep halves of blocks, or return
// wrong data.
#include "sim/injector/storage_injector.h"

#include <array>

namespace troupe::sim {

bool StorageInjector::fill_disk(const FaultChange& change) {
  cluster_.node(change.fault.node).disk->faults().full = change.worst > 0;
  return has_disk(change.fault.node);
}

bool StorageInjector::fail_disk(const FaultChange& change) {
  cluster_.node(change.fault.node).disk->faults().failing = change.worst > 0;
  return has_disk(change.fault.node);
}

bool StorageInjector::slow_disk(const FaultChange& change) {
  const Fault& fault = change.fault;
  cluster_.node(fault.node).disk->faults().slowness =
      faults_.slowness(fault.kind, fault.node, 1 + 500 * change.worst);
  return has_disk(fault.node);
}

// Loads are rare while the pool has the requested blocks, so strong faults begin with an empty process.
bool StorageInjector::lose_loads(const FaultChange& change) {
  const Fault& fault = change.fault;
  cluster_.node(fault.node).disk->faults().loads_lost = change.worst;
  if (change.on && fault.intensity >= 0.5 && cluster_.host().alive(fault.node))
    processes_.kill_for(fault.node, {100'000}, "");
  return false;  // acts when a load is lost
}

bool StorageInjector::tear_saves(const FaultChange& change) {
  refresh_torn(change.fault.node);
  return false;  // acts when a save is torn
}

bool StorageInjector::swap_blocks(const FaultChange& change) {
  return change.on && damage_record(change, std::array{&SimDisk::swap_two});
}

bool StorageInjector::damage_blocks(const FaultChange& change) {
  return change.on && damage_record(change, std::array{&SimDisk::flip_one, &SimDisk::forge_one,
                                                       &SimDisk::truncate_one, &SimDisk::revive_one});
}

bool StorageInjector::damage_record(const FaultChange& change, std::span<const DiskDamage> lies) {
  SimDisk& disk = *cluster_.node(change.fault.node).disk;
  bool any = false;
  for (int i = 1 + static_cast<int>(change.fault.intensity * 20); i > 0; --i) {
    const DiskDamage one = lies.size() == 1 ? lies[0] : lies[change.random.below(lies.size())];
    any = (disk.*one)(change.random) || any;
  }
  return any;
}

// Weak faults: the process dies once in the middle of a save. Strong faults: the disk is full in the middle
// of every save.
void StorageInjector::refresh_torn(NodeId node) {
  SimDisk::Faults& faults = cluster_.node(node).disk->faults();
  faults.torn = SimDisk::Torn::none;
  faults_.for_each(FaultKind::torn_save, [&](std::size_t index, const Fault& fault) {
    if (fault.node != node) return;
    if (fault.intensity >= 0.5)
      faults.torn = SimDisk::Torn::by_full_disk;
    else if (faults.torn == SimDisk::Torn::none && !faults_.has_acted(index))
      faults.torn = SimDisk::Torn::by_death;
  });
}

void StorageInjector::on_struck(NodeId node, FaultKind kind) {
  const bool dies =
      kind == FaultKind::torn_save && cluster_.node(node).disk->faults().torn == SimDisk::Torn::by_death;
  refresh_torn(node);
  if (dies)
    processes_.kill_for(node, {300'000}, "node " + std::to_string(node) + " dies while it saves a block");
}

}  // namespace troupe::sim
