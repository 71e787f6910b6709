// Contains the table of fault kinds with their properties, and describes a fault in one line.
#include "sim/scenario/faults.h"

#include <cstdio>

namespace troupe::sim {
namespace {

constexpr FaultTraits rows[] = {
#define TROUPE_X(name, place, needs, harm, lasts, does, text) \
  {#name, text, FaultTarget::place, FaultNeeds::needs, FaultHarm::harm, FaultDuration::lasts},
    TROUPE_FOR_EACH_FAULT(TROUPE_X)
#undef TROUPE_X
};
static_assert(std::size(rows) == fault_kinds);

}  // namespace

const FaultTraits& traits_of(FaultKind kind) { return rows[static_cast<std::size_t>(kind)]; }

std::string describe(const Fault& fault) {
  char text[160];
  std::snprintf(text, sizeof text, "%9.3fs +%.3fs  %s", static_cast<double>(fault.at.us) * 1e-6,
                static_cast<double>(fault.lasts.us) * 1e-6, std::string(name_of(fault.kind)).c_str());
  std::string line = text;
  line += fault.node == 0 ? " everywhere" : " node " + std::to_string(fault.node);
  if (fault.peer != 0) line += " and node " + std::to_string(fault.peer);
  std::snprintf(text, sizeof text, " (intensity %.2f)", fault.intensity);
  return line + text;
}

}  // namespace troupe::sim
