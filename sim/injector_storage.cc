// Faults of the disks: they fail, fill, slow down and lie.
#include "sim/injector.h"

namespace troupe::sim {

void Injector::set_disk(const Fault& fault, bool on) {
  SimDisk::Faults& faults = cluster_.node(fault.node).disk->faults();
  switch (fault.kind) {
    case FaultKind::disk_full:
      faults.full = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::disk_failing:
      faults.failing = active(fault.kind, fault.node) > 0;
      return;
    case FaultKind::disk_slow:
      faults.slowness = 1 + 500 * strongest(fault.kind, fault.node);
      return;
    default:
      if (on) corrupt_disk(fault);
  }
}

void Injector::corrupt_disk(const Fault& fault) {
  SimDisk& disk = *cluster_.node(fault.node).disk;
  const int count = 1 + static_cast<int>(fault.intensity * 20);
  for (int i = 0; i < count; ++i) {
    if (fault.kind == FaultKind::disk_swapped) {
      disk.swap_two(random_);
      continue;
    }
    switch (random_.below(4)) {
      case 0:
        disk.flip_one(random_);
        break;
      case 1:
        disk.forge_one(random_);
        break;
      case 2:
        disk.truncate_one(random_);
        break;
      default:
        disk.revive_one(random_);
    }
  }
}

}  // namespace troupe::sim
