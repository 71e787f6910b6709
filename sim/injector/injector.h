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
  void schedule_all();
  // Reverts everything now; faults scheduled for later no longer strike.
  void heal();

  // Number of faults that acted, and of faults that ended without acting, per kind.
  const std::array<std::uint32_t, fault_kinds>& injected() const { return injected_; }
  const std::array<std::uint32_t, fault_kinds>& missed() const { return missed_; }
  const FaultCoverage& coverage() const { return coverage_; }

  std::function<void(const std::string& line)> history;

 private:
  static constexpr Address operator_{0xD0000000, Role::server};
  using PhaseSet = std::bitset<phases>;
  using DiskDamage = bool (SimDisk::*)(RandomStream&);
  using UserKey = std::pair<std::string, std::string>;  // tenant, user

  // Beginning, repetition or end of a fault.
  struct FaultChange {
    std::size_t index;
    const Fault& fault;
    bool on;
    double worst;  // intensity of the strongest active fault of its kind on that node; 0 = none
  };
  // Applies a change. Returns true if the fault found something to act on; the result is ignored at its
  // end.
  using Effect = bool (Injector::*)(const FaultChange&);

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
  bool die(const FaultChange& change);
  bool die_wiped(const FaultChange& change);
  bool die_all(const FaultChange& change);
  bool stop(const FaultChange& change);
  bool alarm(const FaultChange& change);
  bool drift(const FaultChange& change);
  bool drain(const FaultChange& change);
  bool kill(NodeId node);     // false = already dead
  void restart(NodeId node);  // unless a fault keeps it down
  void bring_back(NodeId node);
  void poll_drain(NodeId node);
  void judge_drained(const Node& node);
  void refresh_clock(NodeId node);

  // ---- injector_network.cc ----
  bool cut_off(const FaultChange& change);
  void cut(std::size_t index, NodeId from, NodeId to);  // by this fault, until mend_all
  bool mend_all(std::size_t index);
  bool cut_one_way(const FaultChange& change);
  bool cut_halves(const FaultChange& change);
  bool degrade_links(const FaultChange& change);
  bool reset_pulls(const FaultChange& change);
  bool slow_pulls(const FaultChange& change);
  bool damage_pulls(const FaultChange& change);
  bool has_peers() const { return cluster_.scenario().workers > 1; }  // to pull from
  SimNetwork::Link degraded_link(NodeId node) const;
  void refresh_links();
  void slow_commands();

  // ---- injector_authority.cc ----
  bool block_coordination(const FaultChange& change);
  bool slow_coordination(const FaultChange& change);
  bool depose(const FaultChange& change);
  bool forge_command(const FaultChange& change);
  bool swap_model(const FaultChange& change);
  bool stop_model_loads(const FaultChange& change);
  bool swap_catalog(const FaultChange& change);
  void refresh_cut_off();
  bool depose_leader(std::size_t index);
  void end_deposed(std::size_t index);
  void cut_from_new_leaders(NodeId router, NodeId leader, bool on);
  std::string draw_catalog();
  bool reload(const std::string& model, const std::string& catalog, double share = 1);

  // ---- injector_storage.cc ----
  bool fill_disk(const FaultChange& change);
  bool fail_disk(const FaultChange& change);
  bool slow_disk(const FaultChange& change);
  bool damage_blocks(const FaultChange& change);
  bool swap_blocks(const FaultChange& change);
  bool tear_saves(const FaultChange& change);
  bool lose_loads(const FaultChange& change);
  bool has_disk(NodeId node) const { return cluster_.scenario().store && alive(node); }
  bool damage_record(const Fault& fault, std::span<const DiskDamage> lies);
  void refresh_torn(NodeId node);
  void on_struck(NodeId node, FaultKind kind);

  // ---- injector_device.cc ----
  bool hang_device(const FaultChange& change);
  bool break_device(const FaultChange& change);
  bool compute_nan(const FaultChange& change);
  bool slow_device(const FaultChange& change);
  bool flip_pages(const FaultChange& change);
  bool move_split(const FaultChange& change);
  bool apply_split(NodeId node);

  // ---- injector_load.cc ----
  bool degrade_features(const FaultChange& change);
  bool flood(const FaultChange& change);
  bool crowd(const FaultChange& change);
  bool send_malformed(const FaultChange& change);
  bool send_poison(const FaultChange& change);
  bool storm_profiles(const FaultChange& change);
  bool delete_owners(const FaultChange& change);
  void refresh_writes();
  bool start_poison(std::size_t index);
  void on_poison(NodeId node, std::uint64_t content);
  void start_deletes(const Fault& fault);
  void delete_one();
  void put_user(const UserKey& user);
  void put_item(const std::string& item);
  void put_all_back();
  std::vector<Token> draw_tokens();

  struct DrainState {
    std::set<Address> left;   // actors that have not reported "drained" yet
    Incarnation process = 0;  // process that was asked to drain; another one has not reported
    Instant give_up;          // time by which all earlier requests have their outcome
  };

  // State of a two_leaders fault: the leader that was cut off from the coordination store, and how its
  // commands become stale.
  struct DeposedLeader {
    NodeId leader = 0;
    NodeId deaf = 0;    // router that hears of no other leader; 0 = none
    bool late = false;  // its messages to workers take longer than its lease
  };

  Cluster& cluster_;
  Clients& clients_;
  Violations& violations_;
  RandomStream random_;  // stream of the fault that strikes
  const std::vector<Fault> faults_;
  std::set<std::size_t> active_, acted_;
  bool healed_ = false;
  std::array<std::uint32_t, fault_kinds> injected_{}, missed_{};
  FaultCoverage coverage_{};
  std::uint64_t last_token_ = 0;                            // fencing token of the last leader seen
  std::map<std::size_t, DeposedLeader> deposed_;            // by fault
  std::map<std::size_t, std::uint64_t> poisons_;            // contents, by fault
  std::map<std::uint64_t, std::uint32_t> kills_by_poison_;  // by content
  std::map<std::size_t, std::vector<std::pair<NodeId, NodeId>>> cut_;  // by fault
  std::map<NodeId, DrainState> draining_;
  std::set<UserKey> gone_users_;
  std::set<std::string> gone_items_;
  std::uint64_t split_epoch_ = 1'000;
};

}  // namespace troupe::sim
