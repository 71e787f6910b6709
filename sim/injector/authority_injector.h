#pragma once
// Injects faults of authority (who may command the cluster): an unreachable coordination store, former
// leaders that still send commands, version changes.
#include <map>
#include <string>

#include "sim/injector/load_injector.h"
#include "sim/injector/network_injector.h"
#include "sim/injector/process_injector.h"

namespace troupe::sim {

class AuthorityInjector {
 public:
  AuthorityInjector(Cluster& cluster, Clients& clients, const ActiveFaults& faults,
                    ProcessInjector& processes, NetworkInjector& network, LoadInjector& load)
      : cluster_(cluster),
        clients_(clients),
        faults_(faults),
        processes_(processes),
        network_(network),
        load_(load) {}

  // Effects; each returns true if the fault found something to act on.
  bool block_coordination(const FaultChange& change);
  bool slow_coordination(const FaultChange& change);
  bool lose_coordination(const FaultChange& change);
  bool depose(const FaultChange& change);
  bool forge_command(const FaultChange& change);
  bool swap_model(const FaultChange& change);
  bool stop_model_loads(const FaultChange& change);
  bool swap_catalog(const FaultChange& change);

  // Remembers the leader's fencing token, whose successors make it stale, and copies the coordination
  // store, unless there is a copy. Called before each fault.
  void note_leader();

 private:
  // State of a two_leaders fault: the leader that was cut off from the coordination store, and how its
  // commands become stale.
  struct DeposedLeader {
    NodeId leader = 0;
    NodeId deaf = 0;    // router that hears of no other leader; 0 = none
    bool late = false;  // its messages to workers take longer than its lease
  };

  void refresh_away();
  void refresh_cut_off();
  bool depose_leader(std::size_t index);
  void end_deposed(std::size_t index);
  void set_deposed(const DeposedLeader& deposed, bool on);
  void cut_from_new_leaders(NodeId router, NodeId leader, bool on);
  std::string draw_catalog(RandomStream& random) const;
  bool reload(const std::string& model, const std::string& catalog, double share = 1);

  Cluster& cluster_;
  Clients& clients_;
  const ActiveFaults& faults_;
  ProcessInjector& processes_;
  NetworkInjector& network_;
  LoadInjector& load_;
  std::uint64_t last_token_ = 0;                  // fencing token of the last leader seen
  std::map<std::size_t, DeposedLeader> deposed_;  // by fault
};

}  // namespace troupe::sim
