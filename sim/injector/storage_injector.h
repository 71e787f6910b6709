#pragma once
// Injects faults of the disks: they fail, fill up, slow down, keep halves of blocks, or return wrong data.
#include <span>

#include "sim/injector/process_injector.h"

namespace troupe::sim {

class StorageInjector {
 public:
  StorageInjector(Cluster& cluster, const ActiveFaults& faults, ProcessInjector& processes)
      : cluster_(cluster), faults_(faults), processes_(processes) {}

  // Effects; each returns true if the fault found something to act on.
  bool fill_disk(const FaultChange& change);
  bool fail_disk(const FaultChange& change);
  bool slow_disk(const FaultChange& change);
  bool damage_blocks(const FaultChange& change);
  bool swap_blocks(const FaultChange& change);
  bool tear_saves(const FaultChange& change);
  bool lose_loads(const FaultChange& change);

  // Called after a fault that waits for a job was counted as acted.
  void on_struck(NodeId node, FaultKind kind);

 private:
  using DiskDamage = bool (SimDisk::*)(RandomStream&);

  bool has_disk(NodeId node) const { return cluster_.scenario().store && cluster_.host().alive(node); }
  bool damage_record(const FaultChange& change, std::span<const DiskDamage> lies);
  void refresh_torn(NodeId node);

  Cluster& cluster_;
  const ActiveFaults& faults_;
  ProcessInjector& processes_;
};

}  // namespace troupe::sim
