// Names the phases of work that a fault can meet, for the report on coverage.
#include "sim/cluster/phases.h"

#include <iterator>

namespace troupe::sim {

std::string_view name_of(Phase phase) {
  constexpr std::string_view names[] = {
#define TROUPE_X(name, text) #name,
      TROUPE_FOR_EACH_PHASE(TROUPE_X)
#undef TROUPE_X
  };
  static_assert(std::size(names) == phases);
  return names[static_cast<std::size_t>(phase)];
}

}  // namespace troupe::sim
