#pragma once
// How far a pass is whose blocks come while it runs: each layer begins when the one before it is computed and
// its own part has come, so where it stands is a recurrence over the two. Layers take as long as each other,
// and come evenly.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::sim {

struct Coming {
  Instant begins, ends;  // of the last block
};

struct Layers {
  Instant begun;
  Duration compute;  // all of them, without waiting
  std::uint32_t count = 1;
  double each_us() const { return static_cast<double>(compute.us) / count; }
};

// How long of the time until then it computes.
inline Duration computed_by(Instant until, const Layers& layers, const Coming& coming) {
  const double part = static_cast<double>((coming.ends - coming.begins).us) / layers.count,
               each = layers.each_us();
  const auto end = static_cast<double>(until.us);
  double at = static_cast<double>(layers.begun.us), computed = 0;
  for (std::uint32_t layer = 1; layer <= layers.count; ++layer) {
    const double begins = std::max(at, static_cast<double>(coming.begins.us) + part * layer);
    if (begins >= end) break;
    computed += std::min(each, end - begins);
    at = begins + each;
  }
  return {static_cast<std::int64_t>(computed)};
}

// Until the layer ends that runs when so much is computed; a pass in vain ends there.
inline Duration left_of_layer(Duration computed, const Layers& layers) {
  const double of_layer =
      layers.compute.us > 0 ? std::fmod(static_cast<double>(computed.us), layers.each_us()) : 0;
  return {of_layer > 0 ? static_cast<std::int64_t>(layers.each_us() - of_layer) : 0};
}

}  // namespace troupe::sim
