#pragma once
// Fault injector: applies the scenario's faults to the cluster at their times and reverts them at their end.
// The effects are in one injector per part of the cluster; this class decides when a fault strikes, and
// counts. Faults that found nothing to act on (a process that is already dead, an empty disk) are counted
// separately. `heal` ends all remaining faults and restarts every process.
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <string>

#include "sim/injector/active_faults.h"
#include "sim/injector/authority_injector.h"
#include "sim/injector/device_injector.h"
#include "sim/injector/load_injector.h"
#include "sim/injector/network_injector.h"
#include "sim/injector/process_injector.h"
#include "sim/injector/storage_injector.h"

namespace troupe::sim {

class Injector {
 public:
  Injector(Cluster& cluster, Clients& clients, Violations& violations);

  // Schedules the begin and end of every fault of the scenario.
  void schedule_all();
  // Reverts everything now; faults scheduled for later no longer strike.
  void heal();

  // Number of faults that acted, and of faults that ended without acting, per kind.
  const std::array<std::uint32_t, fault_kinds>& injected() const { return injected_; }
  const std::array<std::uint32_t, fault_kinds>& missed() const { return missed_; }
  const FaultCoverage& coverage() const { return coverage_; }

  std::function<void(const std::string& line)> history;

 private:
  using PhaseSet = std::bitset<phases>;
  // The rows of faults.h name these members and their functions.
  struct Parts {
    ProcessInjector processes;
    NetworkInjector network;
    StorageInjector storage;
    DeviceInjector devices;
    LoadInjector load;
    AuthorityInjector authority;
  };

  void strike(std::size_t index);
  void act(std::size_t index);  // repeated for instantaneous faults
  void end(std::size_t index);
  bool apply(std::size_t index, bool on);
  void on_struck(NodeId node, FaultKind kind);
  void note_acted(std::size_t index, const PhaseSet& met);
  void note_phases();  // counts the current phases for lasting faults
  PhaseSet phases_now() const;

  Cluster& cluster_;
  ActiveFaults faults_;
  Parts parts_;
  std::array<std::uint32_t, fault_kinds> injected_{}, missed_{};
  FaultCoverage coverage_{};
};

}  // namespace troupe::sim
