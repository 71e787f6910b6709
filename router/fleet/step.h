#pragma once
// What one step of the router gives its parts: the time, the next free number, and where effects go.
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::router {

struct Step {
  Instant now;
  std::uint64_t& next_id;  // of requests and jobs of this router
  Effects& effects;
};

}  // namespace troupe::router
