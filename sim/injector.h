#pragma once
// Does to the cluster what the scenario's faults say, and undoes it when their time is over. Faults of one
// kind may overlap: each is counted, and only the last to end makes things whole. `heal` ends all that is
// left and brings every process back.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "sim/clients.h"
#include "sim/cluster.h"

namespace troupe::sim {

class Injector {
 public:
  Injector(Cluster& cluster, Clients& clients, Violations& violations);

  // Arranges for every fault of the scenario to strike and to end.
  void arrange();
  // Everything is made whole now; what is arranged for later does not strike any more.
  void heal();

  const std::array<std::uint32_t, fault_kinds>& injected() const { return injected_; }
  const Meetings& meetings() const { return meetings_; }
  // Active ones and those that just struck meet the phases that the cluster is in.
  void note_phases();

  std::function<void(const std::string& line)> trace;

 private:
  static constexpr Address operator_{0xD0000000, Role::door};

  void strike(std::size_t index);
  void strike_again(std::size_t index);
  void end(std::size_t index);
  void apply(const Fault& fault, bool on);

  void set_process(const Fault& fault, bool on);
  void set_network(const Fault& fault, bool on);
  void set_coordination(const Fault& fault, bool on);
  void set_disk(const Fault& fault, bool on);
  void set_device(const Fault& fault, bool on);
  void set_load(const Fault& fault, bool on);
  void set_versions(const Fault& fault, bool on);

  void kill(NodeId node);
  void restart(NodeId node);
  void bring_back(NodeId node);  // fresh, whatever its state
  void cut_halves(NodeId bridge, bool on);
  void refresh_links();
  void corrupt_memory(const Fault& fault);
  void corrupt_disk(const Fault& fault);
  void squeeze(const Fault& fault, bool on);
  void start_poison(const Fault& fault);
  void on_poison(NodeId node, std::uint64_t content);
  void start_drain(const Fault& fault);
  void judge_drained(const Node& node);
  SimRandom stream_of(const Fault& fault) const;
  void poll_drain(NodeId node, Instant give_up);
  void forge_stale_command();
  // Of the active faults of this kind (on this node, if one is named).
  std::size_t active(FaultKind kind, NodeId node = 0) const;
  double strongest(FaultKind kind, NodeId node) const;

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  SimRandom random_;  // of the fault that strikes
  const std::vector<Fault> faults_;
  std::set<std::size_t> active_;
  std::size_t striking_;  // index of the fault that strikes now; as many as there are: none
  bool healed_ = false;
  std::array<std::uint32_t, fault_kinds> injected_{};
  Meetings meetings_{};
  std::map<std::size_t, NodeId> led_;  // two_leaders: the node that was cut off, by fault
  std::map<std::uint64_t, std::uint32_t> kills_by_poison_;  // by content
  std::map<NodeId, std::set<Role>> draining_;               // actors that have not said "drained" yet
  std::uint64_t split_epoch_ = 1'000;
};

}  // namespace troupe::sim
