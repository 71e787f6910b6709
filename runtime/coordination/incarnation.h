#pragma once
// Chooses the incarnation of a process (messages.h). It is larger than any earlier one of its node,
// even if the clock was set back. The last one is stored as a key in the Coordination.
#include <cstdint>
#include <string>
#include <variant>

#include "runtime/actor/coordination.h"

namespace troupe {

// A process numbers things upwards from its incarnation. It uses fewer than 256 numbers per
// microsecond of its life; the gap between two starts exceeds what it will ever use.
inline constexpr int incarnation_shift = 8;
inline constexpr Incarnation incarnation_gap = std::uint64_t{1} << 40;

// Stores the incarnation before it is used. `seen`: the node's own record of its last one, since
// the Coordination may have lost its data; 0 = none. Refusals: the Coordination's own, or
// unavailable "incarnation_taken" if another process of this node starts at the same time.
std::variant<Incarnation, Refusal> next_incarnation(Coordination& coordination, NodeId node,
                                                    std::int64_t wall_clock_us, Incarnation seen = 0);

}  // namespace troupe
