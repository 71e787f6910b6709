#pragma once
// Injects faults of devices and of host memory: hung, failing or slow devices, NaN results, flipped bits.
#include "sim/injector/process_injector.h"

namespace troupe::sim {

class DeviceInjector {
 public:
  DeviceInjector(Cluster& cluster, const ActiveFaults& faults, ProcessInjector& processes)
      : cluster_(cluster), faults_(faults), processes_(processes) {}

  // Effects; each returns true if the fault found something to act on.
  bool hang_device(const FaultChange& change);
  bool break_device(const FaultChange& change);
  bool compute_nan(const FaultChange& change);
  bool slow_device(const FaultChange& change);
  bool flip_pages(const FaultChange& change);

 private:
  bool alive(NodeId node) const { return cluster_.host().alive(node); }

  Cluster& cluster_;
  const ActiveFaults& faults_;
  ProcessInjector& processes_;
};

}  // namespace troupe::sim
