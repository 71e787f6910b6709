#pragma once
// Runs one scenario from its start to its verdict: builds the cluster, lets the clients ask and the faults
// strike, judges every answer and the state in between, and counts what met what.
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/messages.h"
#include "sim/scenario.h"
#include "sim/violations.h"

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

struct Tally {
  std::uint64_t requests = 0, answered = 0, refused = 0, expired = 0,
                cut_off = 0;  // cut off: their router died
  std::uint64_t tokens_total = 0, tokens_reused = 0;
  std::uint64_t after_kill = 0, after_kill_ok = 0;  // sent 5 H or more after a kill, with nothing else wrong
  std::uint64_t kills = 0, swaps = 0;
};
Tally& operator+=(Tally& sum, const Tally& one);

struct RunOptions {
  bool first_violation_ends = true;
  std::function<void(const std::string& line)> trace;  // one line for each message and fault; empty: none
};

struct RunResult {
  std::uint64_t seed = 0, digest = 0, events = 0;
  std::vector<Violation> violations;  // empty: all promises were kept
  std::array<std::uint32_t, fault_kinds> injected{};
  Meetings meetings{};
  Tally tally;
};

RunResult run(const Scenario& scenario, const RunOptions& options = {});

}  // namespace troupe::sim
