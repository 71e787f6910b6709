#pragma once
// Bounds of rounding for the configured number formats: how far apart two right results may be.
#include "runtime/config/config.h"

namespace troupe::deploy {

// Bounds of differences, relative to the largest value of a request or to 1.
struct RoundingBounds {
  double reuse = 0;   // of two computations by Troupe, with and without reused blocks
  double golden = 0;  // of scores that another program computed
};
RoundingBounds rounding_bounds(const Config& config);

}  // namespace troupe::deploy
