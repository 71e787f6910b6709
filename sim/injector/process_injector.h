#pragma once
// Injects faults of processes: they are killed, paused, reported lost, given drifting clocks or another
// split of their pool, or drained by operators. Other injectors kill and restart processes through this
// class, so that a restarted process is told what its active faults change.
#include <functional>
#include <map>
#include <set>
#include <string>

#include "sim/cluster/clients.h"
#include "sim/cluster/cluster.h"
#include "sim/injector/active_faults.h"

namespace troupe::sim {

class ProcessInjector {
 public:
  // `history` receives lines for the run's history.
  ProcessInjector(Cluster& cluster, Clients& clients, Violations& violations, const ActiveFaults& faults,
                  std::function<void(const std::string& line)> history);
  ProcessInjector(const ProcessInjector&) = delete;  // the host has a callback to it
  ProcessInjector& operator=(const ProcessInjector&) = delete;

  // Effects; each returns true if the fault found something to act on.
  bool die(const FaultChange& change);
  bool die_wiped(const FaultChange& change);
  bool die_all(const FaultChange& change);
  bool stop(const FaultChange& change);
  bool alarm(const FaultChange& change);
  bool drift(const FaultChange& change);
  bool move_split(const FaultChange& change);
  bool drain(const FaultChange& change);

  // Kills the process and restarts it after `down`, for a reason that the history names; "" = none.
  void kill_for(NodeId node, Duration down, const std::string& reason);
  void bring_back(NodeId node);  // kills and restarts it now
  // Lets the clock of a deposed leader run so slowly that it trusts its expired lease.
  void set_slow_clock(NodeId node, bool slow);
  // Ends all drains and restarts every process.
  void heal();

 private:
  static constexpr Address operator_{0xD0000000, Role::server};

  struct DrainState {
    std::set<Address> left;   // actors that have not reported "drained" yet
    Incarnation process = 0;  // process that was asked to drain; another one has not reported
    Instant give_up;          // time by which all earlier requests have their outcome
  };

  bool alive(NodeId node) const { return cluster_.host().alive(node); }
  bool kill(NodeId node);     // false = already dead
  void restart(NodeId node);  // unless a fault keeps it down
  void refresh_clock(NodeId node);
  bool apply_split(NodeId node);
  void on_status(Address from, const StatusReply& status);
  void poll_drain(NodeId node);
  void judge_drained(const Node& node);

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  const ActiveFaults& faults_;
  const std::function<void(const std::string& line)> history_;
  std::set<NodeId> slow_clocks_;  // of deposed leaders
  std::map<NodeId, DrainState> draining_;
  std::uint64_t split_epoch_ = 1'000;
};

}  // namespace troupe::sim
