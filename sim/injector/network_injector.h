#pragma once
// Injects faults of the network: isolated nodes and halves, degraded links, broken bulk transfers, late
// commands of deposed leaders.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/injector/active_faults.h"

namespace troupe::sim {

class NetworkInjector {
 public:
  NetworkInjector(Cluster& cluster, const ActiveFaults& faults) : cluster_(cluster), faults_(faults) {}

  // Effects; each returns true if the fault found something to act on.
  bool cut_off(const FaultChange& change);
  bool cut_one_way(const FaultChange& change);
  bool cut_halves(const FaultChange& change);
  bool degrade_links(const FaultChange& change);
  bool reset_pulls(const FaultChange& change);
  bool slow_pulls(const FaultChange& change);
  bool damage_pulls(const FaultChange& change);

  // Delays the messages of a deposed leader to workers, so that they arrive while another node leads.
  void set_late_commands(NodeId leader, bool late);

 private:
  void cut(std::size_t index, NodeId from, NodeId to);  // by this fault, until mend_all
  bool mend_all(std::size_t index);
  bool has_peers() const { return cluster_.scenario().workers > 1; }  // to pull from
  SimNetwork::Link degraded_link(NodeId node) const;
  void refresh_links();
  void delay_commands();

  Cluster& cluster_;
  const ActiveFaults& faults_;
  std::map<std::size_t, std::vector<std::pair<NodeId, NodeId>>> cut_;  // by fault
  std::set<NodeId> late_leaders_;
};

}  // namespace troupe::sim
