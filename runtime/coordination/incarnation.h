#pragma once
// Which incarnation a process has (messages.h): larger than those of its node before, also if the clock was
// set back in between. The last one is a key of the hard state.
#include <cstdint>
#include <string>
#include <variant>

#include "runtime/actor/coordination.h"

namespace troupe {

// A process chooses its numbers upwards from its incarnation. It gets fewer than 256 for each microsecond
// that it lives; between two starts there is at least room for as many as it will ever choose.
inline constexpr int incarnation_shift = 8;
inline constexpr Incarnation incarnation_gap = std::uint64_t{1} << 40;

// Writes it before it is used. `seen`: the node's last one as it remembers itself, for the Coordination may
// have lost its data; 0: none. Refusal: the Coordination's own, or 503 "incarnation_taken" if another process
// of this node starts at the same time.
std::variant<Incarnation, Refusal> next_incarnation(Coordination& coordination, NodeId node,
                                                    std::int64_t wall_clock_us, Incarnation seen = 0);

}  // namespace troupe
