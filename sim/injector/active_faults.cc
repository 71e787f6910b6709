// Answers questions about the active faults of a run: how many, how strong, until when.
#include "sim/injector/active_faults.h"

#include <algorithm>

namespace troupe::sim {

std::size_t ActiveFaults::count(FaultKind kind, NodeId node) const {
  return static_cast<std::size_t>(std::ranges::count_if(active_, [&](std::size_t index) {
    return faults_[index].kind == kind && (node == 0 || faults_[index].node == node);
  }));
}

const Fault* ActiveFaults::strongest_fault(FaultKind kind, NodeId node) const {
  const Fault* strongest = nullptr;
  for_each(kind, [&](std::size_t, const Fault& fault) {
    if (fault.node == node && (!strongest || fault.intensity > strongest->intensity)) strongest = &fault;
  });
  return strongest;
}

double ActiveFaults::strongest(FaultKind kind, NodeId node) const {
  const Fault* fault = strongest_fault(kind, node);
  return fault ? fault->intensity : 0;
}

Instant ActiveFaults::last_end(FaultKind kind, NodeId node) const {
  Instant last;
  for_each(kind, [&](std::size_t, const Fault& fault) {
    if (fault.node == node) last = std::max(last, Instant{} + fault.at + fault.lasts);
  });
  return last;
}

Slowness ActiveFaults::slowness(FaultKind kind, NodeId node, double factor) const {
  return count(kind, node) > 0 ? Slowness{factor, last_end(kind, node)} : Slowness{};
}

RandomStream ActiveFaults::draws(const Fault& fault, Instant now) const {
  return RandomStream(mix(seed_, static_cast<std::uint64_t>(fault.kind), static_cast<std::uint64_t>(now.us)),
                      41 + fault.node);
}

}  // namespace troupe::sim
