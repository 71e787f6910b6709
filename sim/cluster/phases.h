#pragma once
// The phases that a cluster can be in, and which fault met which: a run counts both, so that a pair that
// never happened is seen.
#include <array>
#include <cstdint>
#include <string_view>

#include "sim/scenario/faults.h"

namespace troupe::sim {

// What the cluster was in the middle of when a fault struck or lasted.
#define TROUPE_FOR_EACH_PHASE(X)                      \
  X(idle, "nothing runs")                             \
  X(features, "profiles and items are being fetched") \
  X(lookup, "the index is being asked")               \
  X(blocks, "a plan waits for its blocks")            \
  X(pull, "pages come from another node")             \
  X(load, "blocks come from the disk")                \
  X(compute, "a batch runs")                          \
  X(making, "a block is being written")               \
  X(inventory, "a cache-meta learns what there is")   \
  X(leaderless, "no cache-meta leads")                \
  X(retry, "a request is tried again")                \
  X(swap, "a model or catalog is being changed")

enum class Phase : std::uint8_t {
#define TROUPE_X(name, text) name,
  TROUPE_FOR_EACH_PHASE(TROUPE_X)
#undef TROUPE_X
      count_
};
inline constexpr std::size_t phases = static_cast<std::size_t>(Phase::count_);
std::string_view name_of(Phase phase);

// How often each kind of fault lasted while the cluster was in each phase.
using Meetings = std::array<std::array<std::uint32_t, phases>, fault_kinds>;

}  // namespace troupe::sim
