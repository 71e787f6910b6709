#pragma once
// The faults that the simulation injects (the promises stand in ARCHITECTURE.md), as data: what, when, how
// long, where, how bad. A scenario's faults are a list that is drawn before the run, so a run without some of
// them is the same run otherwise, and a failing list can be shortened. What a fault does to the cluster is in
// the injector's files.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/actor/core.h"

namespace troupe::sim {

// One line per kind: its name, what it does.
#define TROUPE_FOR_EACH_FAULT(X)                                                              \
  X(kill, "a process dies and comes back with its disk")                                      \
  X(wipe, "a process dies and comes back with an empty disk")                                 \
  X(pause, "a process is stopped and continued")                                              \
  X(isolate, "a node is cut off from all others")                                             \
  X(one_way, "a node hears the others, but they do not hear it")                              \
  X(bridge, "two halves of the cluster that only one node connects")                          \
  X(delay, "all links of a node are slow")                                                    \
  X(loss, "links lose messages")                                                              \
  X(doubling, "links double messages")                                                        \
  X(reordering, "links reorder messages")                                                     \
  X(false_alarm, "a living node is reported lost")                                            \
  X(transfer_reset, "pulls of pages break off")                                               \
  X(transfer_slow, "pulls of pages take long")                                                \
  X(transfer_corruption, "pulled bytes are damaged on the way")                               \
  X(memory_corruption, "bytes of cached blocks flip")                                         \
  X(coordination_away, "the hard state cannot be reached, by one node or by all")             \
  X(coordination_slow, "the hard state answers slowly")                                       \
  X(two_leaders, "a cache-meta that lost the lead still gives commands, or they arrive late") \
  X(stale_leader, "a command comes from a leader who has been succeeded")                     \
  X(disk_full, "nothing more can be saved")                                                   \
  X(disk_failing, "reads and writes of the disk fail")                                        \
  X(disk_slow, "the disk is slow")                                                            \
  X(disk_corrupt, "saved blocks are damaged or truncated")                                    \
  X(disk_swapped, "saved blocks hold the content of others")                                  \
  X(torn_save, "a save breaks off in its middle: the process dies, or the disk is full")      \
  X(load_failing, "a process restarts, and single blocks cannot be read from its disk")       \
  X(features_slow, "profiles and catalog answer slowly")                                      \
  X(features_failing, "profiles and catalog cannot be read")                                  \
  X(features_hung, "profiles and catalog do not answer until healed")                         \
  X(clock_drift, "a node's clock runs fast or slow")                                          \
  X(memory_pressure, "the split of a node's pool moves")                                      \
  X(device_hang, "batches do not end")                                                        \
  X(device_error, "batches fail")                                                             \
  X(device_nan, "the device computes NaN")                                                    \
  X(slow_node, "a device is many times slower")                                               \
  X(overload, "more requests than the cluster can answer")                                    \
  X(flash_crowd, "everybody wants the same users and items")                                  \
  X(malformed, "requests that make no sense, or are too large")                               \
  X(poison, "a request that kills the process that computes it")                              \
  X(profile_storm, "profiles and items change while they are in use")                         \
  X(deletes, "users and items are deleted while they are in use")                             \
  X(model_swap, "another model is served")                                                    \
  X(model_load_failing, "another model is to be served, and some workers cannot load it")     \
  X(catalog_swap, "another catalog is served")                                                \
  X(drain, "a process is drained and restarted")                                              \
  X(cold_start, "everything dies and starts again")

enum class FaultKind : std::uint8_t {
#define TROUPE_X(name, text) name,
  TROUPE_FOR_EACH_FAULT(TROUPE_X)
#undef TROUPE_X
      count_
};
inline constexpr std::size_t fault_kinds = static_cast<std::size_t>(FaultKind::count_);

std::string_view name_of(FaultKind kind);
std::string_view text_of(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kill;
  Duration at;             // from the start of the run
  Duration lasts;          // healed after that; instant faults ignore it
  NodeId node = 0;         // where; 0: everywhere
  NodeId peer = 0;         // the second node of a link or a pair, if the kind has one
  double intensity = 0.5;  // 0..1; what it scales depends on the kind
  bool operator==(const Fault&) const = default;
};

// "1.203s +0.800s  kill node 5": at, for how long, what, where.
std::string describe(const Fault& fault);

}  // namespace troupe::sim
