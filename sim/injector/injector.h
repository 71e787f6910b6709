#pragma once
// Fault injector: applies the scenario's faults to the cluster and reverts them at their end. The state of
// the cluster follows from all active faults, and the strongest of each kind counts. A second fault of a
// kind therefore neither ends nor outlasts the first. Faults that found nothing to act on (a process that
// is already dead, an empty disk) are counted separately. `heal` ends all remaining faults and restarts
// every process.
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/clients.h"
#include "sim/cluster/cluster.h"

namespace troupe::sim {

class Injector {
 public:
  Injector(Cluster& cluster, Clients& clients, Violations& violations);

  // Schedules the begin and end of every fault of the scenario.
  void arrange();
  // Reverts everything now; faults scheduled for later no longer strike.
  void heal();

  // Number of faults that acted, and of faults that ended without acting, per kind.
  const std::array<std::uint32_t, fault_kinds>& injected() const { return injected_; }
  const std::array<std::uint32_t, fault_kinds>& missed() const { return missed_; }
  const Meetings& meetings() const { return meetings_; }

  std::function<void(const std::string& line)> history;

 private:
  static constexpr Address operator_{0xD0000000, Role::door};
  using PhaseSet = std::bitset<phases>;
  using DiskLie = bool (SimDisk::*)(SimRandom&);
  using UserKey = std::pair<std::string, std::string>;  // tenant, user

  // Beginning, repetition or end of a fault.
  struct Change {
    std::size_t index;
    const Fault& fault;
    bool on;
    double worst;  // intensity of the strongest active fault of its kind on that node; 0 = none
  };
  // Applies a change. Returns true if the fault found something to act on; the result is ignored at its
  // end.
  using Effect = bool (Injector::*)(const Change&);

  // ---- injector.cc: schedule of faults ----
  void strike(std::size_t index);
  void act(std::size_t index);  // repeated for instantaneous faults
  void end(std::size_t index);
  bool apply(std::size_t index, bool on);
  void note_acted(std::size_t index, const PhaseSet& met);
  void note_phases();  // counts the current phases for lasting faults
  PhaseSet phases_now() const;
  void seed_draws(const Fault& fault);
  // Returns the number of active faults of this kind, on one node or (0) anywhere.
  std::size_t active(FaultKind kind, NodeId node = 0) const;
  double strongest(FaultKind kind, NodeId node) const;                  // 0 = none
  Instant last_end(FaultKind kind, NodeId node) const;                  // end of the last of them
  Slowness slowness(FaultKind kind, NodeId node, double factor) const;  // while there is one
  const Fault* strongest_fault(FaultKind kind, NodeId node) const;
  bool alive(NodeId node) const { return cluster_.host().alive(node); }

  // Functions with a Change argument are named in the rows of faults.h.
  // ---- injector_process.cc ----
  bool die(const Change& change);
  bool die_wiped(const Change& change);
  bool die_all(const Change& change);
  bool stop(const Change& change);
  bool alarm(const Change& change);
  bool drift(const Change& change);
  bool drain(const Change& change);
  bool kill(NodeId node);     // false = already dead
  void restart(NodeId node);  // unless a fault keeps it down
  void bring_back(NodeId node);
  void poll_drain(NodeId node);
  void judge_drained(const Node& node);
  void refresh_clock(NodeId node);

  // ---- injector_network.cc ----
  bool cut_off(const Change& change);
  void cut(std::size_t index, NodeId from, NodeId to);  // by this fault, until mend_all
  bool mend_all(std::size_t index);
  bool cut_one_way(const Change& change);
  bool cut_halves(const Change& change);
  bool trouble_links(const Change& change);
  bool reset_pulls(const Change& change);
  bool slow_pulls(const Change& change);
  bool damage_pulls(const Change& change);
  bool has_peers() const { return cluster_.scenario().workers > 1; }  // to pull from
  SimNetwork::Link troubled_link(NodeId node) const;
  void refresh_links();
  void slow_commands();

  // ---- injector_authority.cc ----
  bool hide_hard_state(const Change& change);
  bool slow_hard_state(const Change& change);
  bool depose(const Change& change);
  bool forge_command(const Change& change);
  bool swap_model(const Change& change);
  bool stop_model_loads(const Change& change);
  bool swap_catalog(const Change& change);
  void refresh_cut_off();
  bool depose_leader(std::size_t index);
  void end_deposed(std::size_t index);
  void deafen(NodeId router, NodeId leader, bool on);
  std::string draw_catalog();
  bool reload(const std::string& model, const std::string& catalog, double share = 1);

  // ---- injector_storage.cc ----
  bool fill_disk(const Change& change);
  bool fail_disk(const Change& change);
  bool slow_disk(const Change& change);
  bool damage_blocks(const Change& change);
  bool swap_blocks(const Change& change);
  bool tear_saves(const Change& change);
  bool lose_loads(const Change& change);
  bool has_disk(NodeId node) const { return cluster_.scenario().store && alive(node); }
  bool lie(const Fault& fault, std::span<const DiskLie> lies);
  void refresh_torn(NodeId node);
  void on_struck(NodeId node, FaultKind kind);

  // ---- injector_device.cc ----
  bool hang_device(const Change& change);
  bool break_device(const Change& change);
  bool compute_nan(const Change& change);
  bool slow_device(const Change& change);
  bool flip_pages(const Change& change);
  bool press_memory(const Change& change);
  bool squeeze(NodeId node);

  // ---- injector_load.cc ----
  bool trouble_features(const Change& change);
  bool flood(const Change& change);
  bool crowd(const Change& change);
  bool send_nonsense(const Change& change);
  bool ask_poison(const Change& change);
  bool storm_profiles(const Change& change);
  bool delete_owners(const Change& change);
  void refresh_writes();
  bool start_poison(std::size_t index);
  void on_poison(NodeId node, std::uint64_t content);
  void start_deletes(const Fault& fault);
  void delete_one();
  void put_user(const UserKey& user);
  void put_item(const std::string& item);
  void put_all_back();
  std::vector<Token> draw_tokens();

  struct Draining {
    std::set<Address> left;   // actors that have not reported "drained" yet
    Incarnation process = 0;  // process that was asked to drain; another one has not reported
    Instant give_up;          // time by which all earlier requests have their outcome
  };

  // State of a two_leaders fault: the leader that was cut off from the coordination store, and how its
  // commands become stale.
  struct Deposed {
    NodeId leader = 0;
    NodeId deaf = 0;    // router that hears of no other leader; 0 = none
    bool late = false;  // its messages to workers take longer than its lease
  };

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  SimRandom random_;  // stream of the fault that strikes
  const std::vector<Fault> faults_;
  std::set<std::size_t> active_, acted_;
  bool healed_ = false;
  std::array<std::uint32_t, fault_kinds> injected_{}, missed_{};
  Meetings meetings_{};
  std::uint64_t last_token_ = 0;                            // fencing token of the last leader seen
  std::map<std::size_t, Deposed> deposed_;                  // by fault
  std::map<std::size_t, std::uint64_t> poisons_;            // contents, by fault
  std::map<std::uint64_t, std::uint32_t> kills_by_poison_;  // by content
  std::map<std::size_t, std::vector<std::pair<NodeId, NodeId>>> cut_;  // by fault
  std::map<NodeId, Draining> draining_;
  std::set<UserKey> gone_users_;
  std::set<std::string> gone_items_;
  std::uint64_t split_epoch_ = 1'000;
};

}  // namespace troupe::sim
