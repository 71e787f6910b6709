#pragma once
// Phases of a cluster, and counts of which fault met which phase: a run shows the pairs that never
// happened.
#include <array>
#include <cstdint>
#include <string_view>

#include "sim/scenario/faults.h"

namespace troupe::sim {

// Work that the cluster was doing when a fault struck or lasted.
#define TROUPE_FOR_EACH_PHASE(X)                      \
  X(idle, "no request is in flight")                  \
  X(features, "profiles and items are being fetched") \
  X(lookup, "the index is being queried")             \
  X(blocks, "a plan waits for its blocks")            \
  X(pull, "pages are pulled from another node")       \
  X(load, "blocks are loaded from disk")              \
  X(compute, "a batch runs")                          \
  X(making, "a block is being written")               \
  X(inventory, "a cache-meta reads an inventory")     \
  X(leaderless, "no cache-meta leads")                \
  X(retry, "a request is retried")                    \
  X(swap, "a model or catalog is being changed")

enum class Phase : std::uint8_t {
#define TROUPE_X(name, text) name,
  TROUPE_FOR_EACH_PHASE(TROUPE_X)
#undef TROUPE_X
      count_
};
inline constexpr std::size_t phases = static_cast<std::size_t>(Phase::count_);
std::string_view name_of(Phase phase);

// Number of faults of each kind that struck or lasted in each phase.
using FaultCoverage = std::array<std::array<std::uint32_t, phases>, fault_kinds>;

}  // namespace troupe::sim
