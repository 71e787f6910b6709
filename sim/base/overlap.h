#pragma once
// A pass whose cached blocks come while it runs: each layer begins when the one before it is computed and its own part has
// come, so its end is a recurrence over the two. Layers take as long as each other, and come evenly.
#include <algorithm>
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::sim {

struct Coming {
  bool any = false;
  Instant begins, ends;  // of the last block
};

struct Overlap {
  Duration takes, waited;  // from the begin to the last layer, and to the last byte; of that, without computing
  Duration came;           // so long blocks came after the begin
};

inline Overlap overlap_of(Instant now, Duration computes, const Coming& coming, std::uint32_t layers) {
  const double each = static_cast<double>(computes.us) / layers;
  const double part = static_cast<double>((coming.ends - coming.begins).us) / layers;
  double at = static_cast<double>(now.us);
  for (std::uint32_t layer = 1; layer <= layers; ++layer)
    at = std::max(at, static_cast<double>(coming.begins.us) + part * layer) + each;
  // All is known to have come in the moment after.
  const std::int64_t ends = std::max(static_cast<std::int64_t>(at), coming.ends.us + 1);
  const Duration takes{std::max<std::int64_t>(ends - now.us, computes.us)};
  return {takes, {takes.us - computes.us}, {std::max<std::int64_t>((coming.ends - now).us, 0)}};
}

}  // namespace troupe::sim
