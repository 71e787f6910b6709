// Chooses the incarnation of a process: a number larger at each start of its node, by which
// messages of earlier processes are recognised.
#include "runtime/coordination/incarnation.h"

#include <algorithm>
#include <charconv>

namespace troupe {

std::variant<Incarnation, Refusal> next_incarnation(Coordination& coordination, NodeId node,
                                                    std::int64_t wall_clock_us, Incarnation seen) {
  const std::string key = "node/" + std::to_string(node) + "/incarnation";
  const auto read = coordination.ask({ReadKey{key}});
  if (const auto* refusal = std::get_if<Refusal>(&read)) return *refusal;
  const CoordinationReply& known = std::get<CoordinationReply>(read);
  Incarnation last = 0;
  std::from_chars(known.value.data(), known.value.data() + known.value.size(), last);
  last = std::max(last, seen);
  const auto clock = static_cast<Incarnation>(std::max<std::int64_t>(wall_clock_us, 1)) << incarnation_shift;
  const Incarnation next = std::max(last + incarnation_gap, clock);
  const auto written = coordination.ask({WriteKey{key, std::to_string(next), known.revision}});
  if (const auto* refusal = std::get_if<Refusal>(&written)) return *refusal;
  if (!std::get<CoordinationReply>(written).ok)
    return Refusal{RefusalKind::unavailable, "incarnation_taken", "another process has changed " + key,
                   "coordination", "one process per node"};
  return next;
}

}  // namespace troupe
