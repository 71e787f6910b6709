#pragma once
// The scenario's faults during a run: which are active now, which have acted, and the strongest of each
// kind. An injector derives the state of the cluster from all active faults, and the strongest of each kind
// counts. A second fault of a kind therefore neither ends nor outlasts the first.
#include <cstdint>
#include <set>
#include <vector>

#include "sim/base/random.h"
#include "sim/base/slowness.h"
#include "sim/scenario/scenario.h"

namespace troupe::sim {

// Beginning, repetition or end of a fault.
struct FaultChange {
  std::size_t index;
  const Fault& fault;
  bool on;
  double worst;  // intensity of the strongest active fault of its kind on that node; 0 = none
  RandomStream& random;
};

class ActiveFaults {
 public:
  explicit ActiveFaults(const Scenario& scenario) : seed_(scenario.seed), faults_(scenario.faults) {}

  std::size_t size() const { return faults_.size(); }
  const Fault& operator[](std::size_t index) const { return faults_[index]; }

  void begin(std::size_t index) { active_.insert(index); }
  bool end(std::size_t index) { return active_.erase(index) > 0; }  // false = it was not active
  bool is_active(std::size_t index) const { return active_.contains(index); }
  const std::set<std::size_t>& active() const { return active_; }
  // Marks that the fault found something to act on. Returns false if it was marked before.
  bool set_acted(std::size_t index) { return acted_.insert(index).second; }
  bool has_acted(std::size_t index) const { return acted_.contains(index); }
  // After heal() faults scheduled for later no longer strike.
  void heal() { healed_ = true; }
  bool healed() const { return healed_; }

  // Returns the number of active faults of this kind, on one node or (0) anywhere.
  std::size_t count(FaultKind kind, NodeId node = 0) const;
  const Fault* strongest_fault(FaultKind kind, NodeId node) const;      // null = none
  double strongest(FaultKind kind, NodeId node) const;                  // its intensity; 0 = none
  Instant last_end(FaultKind kind, NodeId node) const;                  // end of the last of them
  Slowness slowness(FaultKind kind, NodeId node, double factor) const;  // while there is one
  // Calls use(index, fault) for each active fault of this kind.
  template <class Use>
  void for_each(FaultKind kind, Use use) const {
    for (const std::size_t index : active_)
      if (faults_[index].kind == kind) use(index, faults_[index]);
  }

  // Returns the fault's own random stream at this time, independent of other faults.
  RandomStream draws(const Fault& fault, Instant now) const;

 private:
  const std::uint64_t seed_;
  const std::vector<Fault> faults_;
  std::set<std::size_t> active_, acted_;
  bool healed_ = false;
};

}  // namespace troupe::sim
