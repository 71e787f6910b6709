#pragma once
// Faults that the simulation injects, as data: kind, time, duration, node and intensity. A scenario's
// faults are a list drawn before the run. A run with fewer of them is otherwise the same run, so a failing
// list can be shortened. The injector's files implement the effects.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/actor/core.h"

namespace troupe::sim {

// Target that a fault of a kind may strike.
enum class FaultTarget : std::uint8_t {
  node,    // any node
  pair,    // any node and any peer
  links,   // all links of the cluster, or those of one node
  worker,  // workers only: they own devices, disks and memory
  router,
  coordination_client,  // a client of the coordination store: one router or cache-meta, or all of them
  leader,               // the current leader; the peer is a router that does not learn of its successor
  everywhere,
};

// Minimum cluster in which the fault is meaningful.
enum class FaultNeeds : std::uint8_t { nothing, two_nodes, three_nodes, two_workers, two_cache_metas, disk };

// Whether a cluster with spare workers answers all requests in spite of the fault, if clients are not cut
// off. Poison is not harmless: a popular user whose every request kills two workers leaves no spare worker.
enum class FaultHarm : std::uint8_t { harmless, at_router, harmful };

// Duration of a fault: milliseconds to seconds, unless stated otherwise.
enum class FaultDuration : std::uint8_t {
  brief,
  again,             // instantaneous, and repeated until the fault ends
  past_lease,        // longer than a leader's lease, and until another node leads
  whole_phase,       // in a drill: the whole safety phase
  several_requests,  // in a drill: long enough for several requests, one after the other
};

// One row per kind: name, FaultTarget, FaultNeeds, FaultHarm, FaultDuration, the part of the injector and its
// function that starts and ends it, and a description.
#define TROUPE_FOR_EACH_FAULT(X)                                                                             \
  X(kill, node, nothing, at_router, brief, processes.die, "a process dies and comes back with its disk")     \
  X(wipe, node, nothing, at_router, brief, processes.die_wiped,                                              \
    "a process dies and comes back with an empty disk")                                                      \
  X(pause, node, nothing, at_router, brief, processes.stop, "a process is stopped and continued")            \
  X(isolate, node, two_nodes, at_router, brief, network.cut_off, "a node is cut off from all others")        \
  X(one_way, node, two_nodes, at_router, brief, network.cut_one_way,                                         \
    "a node hears the others, but they do not hear it")                                                      \
  X(bridge, pair, three_nodes, harmful, brief, network.cut_halves,                                           \
    "two halves of the cluster are connected by one node only")                                              \
  X(delay, node, nothing, harmful, brief, network.degrade_links, "all links of a node are slow")             \
  X(loss, links, nothing, harmful, brief, network.degrade_links, "links lose messages")                      \
  X(doubling, links, nothing, harmless, brief, network.degrade_links, "links double messages")               \
  X(reordering, links, nothing, harmless, brief, network.degrade_links, "links reorder messages")            \
  X(false_alarm, pair, two_nodes, harmless, again, processes.alarm, "a living node is reported lost")        \
  X(transfer_reset, worker, two_workers, harmless, brief, network.reset_pulls, "pulls of pages break off")   \
  X(transfer_slow, worker, two_workers, harmless, brief, network.slow_pulls, "pulls of pages take long")     \
  X(transfer_corruption, worker, two_workers, harmless, brief, network.damage_pulls,                         \
    "pulled bytes are damaged on the way")                                                                   \
  X(memory_corruption, worker, nothing, harmless, again, devices.flip_pages, "bytes of cached blocks flip")  \
  X(coordination_away, coordination_client, nothing, harmless, brief, authority.block_coordination,          \
    "the coordination store is unreachable for one node or for all")                                         \
  X(coordination_slow, everywhere, nothing, harmless, brief, authority.slow_coordination,                    \
    "the coordination store answers slowly")                                                                 \
  X(coordination_emptied, router, nothing, at_router, brief, authority.lose_coordination,                    \
    "the coordination store is away, comes back without data, and a router is restarted")                    \
  X(coordination_restored, router, nothing, at_router, brief, authority.lose_coordination,                   \
    "the coordination store is away, comes back as an older copy, and a router is restarted")                \
  X(two_leaders, leader, two_cache_metas, harmless, past_lease, authority.depose,                            \
    "a cache-meta that lost the lead still sends commands, or its commands arrive late")                     \
  X(stale_leader, everywhere, nothing, harmless, again, authority.forge_command,                             \
    "a command arrives from a leader that has a successor")                                                  \
  X(disk_full, worker, disk, harmless, brief, storage.fill_disk, "a disk is full")                           \
  X(disk_failing, worker, disk, harmless, brief, storage.fail_disk, "reads and writes of the disk fail")     \
  X(disk_slow, worker, disk, harmless, brief, storage.slow_disk, "the disk is slow")                         \
  X(disk_corrupt, worker, disk, harmless, again, storage.damage_blocks,                                      \
    "saved blocks are damaged or truncated")                                                                 \
  X(disk_swapped, worker, disk, harmless, again, storage.swap_blocks,                                        \
    "saved blocks hold the content of others")                                                               \
  X(torn_save, worker, disk, harmless, brief, storage.tear_saves,                                            \
    "a save breaks off in its middle: the process dies, or the disk is full")                                \
  X(load_failing, worker, disk, harmless, brief, storage.lose_loads,                                         \
    "a process restarts, and single blocks cannot be read from its disk")                                    \
  X(features_slow, router, nothing, harmful, brief, load.degrade_features,                                   \
    "profiles and catalog answer slowly")                                                                    \
  X(features_failing, router, nothing, harmful, brief, load.degrade_features,                                \
    "profiles and catalog cannot be read")                                                                   \
  X(features_hung, router, nothing, harmful, brief, load.degrade_features,                                   \
    "profiles and catalog do not answer until healed")                                                       \
  X(features_unreadable, router, nothing, harmful, brief, load.degrade_features,                             \
    "the rows of some profiles hold something else")                                                         \
  X(clock_drift, node, nothing, harmless, brief, processes.drift, "a node's clock runs fast or slow")        \
  X(memory_pressure, worker, nothing, harmless, brief, processes.move_split,                                 \
    "the split of a node's pool moves")                                                                      \
  X(device_hang, worker, nothing, harmful, brief, devices.hang_device, "batches do not end")                 \
  X(device_error, worker, nothing, harmless, brief, devices.break_device, "batches fail")                    \
  X(device_nan, worker, nothing, harmless, brief, devices.compute_nan, "the device computes NaN")            \
  X(slow_node, worker, nothing, harmful, whole_phase, devices.slow_device, "a device is many times slower")  \
  X(overload, everywhere, nothing, harmful, brief, load.flood, "more requests than the cluster can answer")  \
  X(flash_crowd, everywhere, nothing, harmful, brief, load.crowd, "requests name the same users and items")  \
  X(malformed, everywhere, nothing, harmless, brief, load.send_malformed,                                    \
    "malformed or oversized requests arrive")                                                                \
  X(poison, everywhere, nothing, harmful, several_requests, load.send_poison,                                \
    "a request that kills the process that computes it")                                                     \
  X(profile_storm, everywhere, nothing, harmless, brief, load.storm_profiles,                                \
    "profiles and items change while they are in use")                                                       \
  X(deletes, everywhere, nothing, harmless, brief, load.delete_owners,                                       \
    "users and items are deleted while they are in use")                                                     \
  X(model_swap, everywhere, nothing, harmless, brief, authority.swap_model, "another model is served")       \
  X(model_load_failing, worker, nothing, harmless, brief, authority.stop_model_loads,                        \
    "another model is to be served, and some workers cannot load it")                                        \
  X(catalog_swap, everywhere, nothing, harmless, brief, authority.swap_catalog, "another catalog is served") \
  X(drain, node, nothing, harmless, brief, processes.drain, "a process is drained and restarted")            \
  X(cold_start, everywhere, nothing, harmful, brief, processes.die_all, "everything dies and starts again")

enum class FaultKind : std::uint8_t {
#define TROUPE_X(name, ...) name,
  TROUPE_FOR_EACH_FAULT(TROUPE_X)
#undef TROUPE_X
      count_
};
inline constexpr std::size_t fault_kinds = static_cast<std::size_t>(FaultKind::count_);

struct FaultTraits {
  std::string_view name, text;
  FaultTarget place;
  FaultNeeds needs;
  FaultHarm harm;
  FaultDuration lasts;
};
const FaultTraits& traits_of(FaultKind kind);
inline std::string_view name_of(FaultKind kind) { return traits_of(kind).name; }
inline std::string_view text_of(FaultKind kind) { return traits_of(kind).text; }

struct Fault {
  FaultKind kind = FaultKind::kill;
  Duration at;             // since the start of the run
  Duration lasts;          // duration; instantaneous faults ignore it
  NodeId node = 0;         // 0 = everywhere
  NodeId peer = 0;         // second node of a link or pair; 0 = none
  double intensity = 0.5;  // 0..1; its meaning depends on the kind
  bool operator==(const Fault&) const = default;
};

// Returns "1.203s +0.800s  kill node 5": start, duration, kind, node.
std::string describe(const Fault& fault);

}  // namespace troupe::sim
