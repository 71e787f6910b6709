#pragma once
// Context of one router step for its parts: the time, the next free id, and the effects to fill.
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::router {

struct Step {
  Instant now;
  std::uint64_t& next_id;  // for requests and jobs of this router
  Effects& effects;
};

}  // namespace troupe::router
