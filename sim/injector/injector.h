#pragma once
// Does to the cluster what the scenario's faults say, and undoes it when their time is over. One rule for
// faults that overlap: how things stand follows from all faults that are active, the strongest of a kind
// counting, so a second one neither ends nor outlasts the first. A fault that found nothing to act on (a dead
// process is killed, an empty disk lies) is counted apart. `heal` ends all that is left and brings every
// process back.
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/clients.h"
#include "sim/cluster/cluster.h"

namespace troupe::sim {

class Injector {
 public:
  Injector(Cluster& cluster, Clients& clients, Violations& violations);

  // Arranges for every fault of the scenario to strike and to end.
  void arrange();
  // Everything is made whole now; what is arranged for later does not strike any more.
  void heal();

  // Those that acted; those that ended without having acted.
  const std::array<std::uint32_t, fault_kinds>& injected() const { return injected_; }
  const std::array<std::uint32_t, fault_kinds>& missed() const { return missed_; }
  const Meetings& meetings() const { return meetings_; }

  std::function<void(const std::string& line)> trace;

 private:
  static constexpr Address operator_{0xD0000000, Role::door};
  using PhaseSet = std::bitset<phases>;
  using UserKey = std::pair<std::string, std::string>;  // tenant, user

  // ---- injector.cc: when what strikes ----
  void strike(std::size_t index);
  void act(std::size_t index);  // again and again, for what has no duration
  void end(std::size_t index);
  // Whether it found something to act on; when it ends, anything.
  bool apply(std::size_t index, bool on);
  void note_acted(std::size_t index, const PhaseSet& met);
  void note_phases();  // what lasts meets the phases that the cluster is in
  PhaseSet phases_now() const;
  void seed_draws(const Fault& fault);
  // Of the active faults of this kind (on this node, if one is named).
  std::size_t active(FaultKind kind, NodeId node = 0) const;
  double strongest(FaultKind kind, NodeId node) const;                  // 0: there is none
  Instant last_end(FaultKind kind, NodeId node) const;                  // of all of them
  Slowness slowness(FaultKind kind, NodeId node, double factor) const;  // as long as there is one
  const Fault* strongest_fault(FaultKind kind, NodeId node) const;
  bool alive(NodeId node) const { return cluster_.host().alive(node); }

  // ---- injector_process.cc ----
  bool set_process(const Fault& fault, bool on);
  bool kill(NodeId node);     // false: it is dead
  void restart(NodeId node);  // unless a fault holds it down
  void bring_back(NodeId node);
  bool wipe(NodeId node);
  bool kill_all();
  bool start_drain(const Fault& fault);
  void poll_drain(NodeId node);
  void judge_drained(const Node& node);
  void refresh_clock(NodeId node);

  // ---- injector_network.cc ----
  bool set_network(const Fault& fault, bool on);
  bool cut_one_way(NodeId from, bool on);
  bool cut_halves(NodeId bridge, bool on);
  SimNetwork::Link troubled_link(NodeId node) const;
  void refresh_links();
  void slow_commands();

  // ---- injector_authority.cc ----
  bool set_authority(std::size_t index, bool on);
  void refresh_cut_off();
  bool depose(std::size_t index);
  void end_deposed(std::size_t index);
  void deafen(NodeId router, NodeId leader, bool on);
  bool forge_stale_command();
  bool change_version(FaultKind kind);
  bool stop_model_loads(const Fault& fault, bool on);

  // ---- injector_storage.cc, injector_device.cc ----
  bool set_disk(const Fault& fault, bool on);
  bool corrupt_disk(const Fault& fault);
  void refresh_torn(NodeId node);
  void restart_empty(const Fault& fault);
  void on_struck(NodeId node, FaultKind kind);
  bool set_device(const Fault& fault, bool on);
  bool corrupt_memory(const Fault& fault);
  bool squeeze(NodeId node);

  // ---- injector_load.cc ----
  bool set_load(std::size_t index, bool on);
  bool set_features(const Fault& fault);
  void set_crowd();
  void refresh_writes();
  bool start_poison(std::size_t index);
  void on_poison(NodeId node, std::uint64_t content);
  bool start_deletes(const Fault& fault);
  void delete_one();
  void put_user(const UserKey& user);
  void put_item(const std::string& item);
  void put_all_back();
  std::vector<Token> draw_tokens();

  struct Draining {
    std::set<Role> left;      // actors that have not said "drained" yet
    Incarnation process = 0;  // that was asked; another one has said nothing
    Instant give_up;          // all that was asked before has its outcome then
  };

  // Of two_leaders: who was cut off from the hard state, and how its commands become stale.
  struct Deposed {
    NodeId leader = 0;
    NodeId deaf = 0;    // a router that hears of no other leader; 0: none
    bool late = false;  // what it says to workers takes longer than its lease
  };

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  SimRandom random_;  // of the fault that strikes
  const std::vector<Fault> faults_;
  std::set<std::size_t> active_, acted_;
  bool healed_ = false;
  std::array<std::uint32_t, fault_kinds> injected_{}, missed_{};
  Meetings meetings_{};
  std::uint64_t last_token_ = 0;                            // of the last leader that was seen
  std::map<std::size_t, Deposed> deposed_;                  // by fault
  std::map<std::size_t, std::uint64_t> poisons_;            // contents, by fault
  std::map<std::uint64_t, std::uint32_t> kills_by_poison_;  // by content
  std::map<NodeId, Draining> draining_;
  std::set<UserKey> gone_users_;
  std::set<std::string> gone_items_;
  std::uint64_t split_epoch_ = 1'000;
};

}  // namespace troupe::sim
