#pragma once
// Progress of a batch whose blocks arrive from other nodes while it computes. A layer starts when the layer
// before it is computed and its own part of the blocks has arrived. Layers take equal time and the bytes
// arrive at a constant rate.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/actor/core.h"

namespace troupe::sim {

// Time interval in which the last block arrives.
struct ArrivalInterval {
  Instant begins, ends;
};

struct Layers {
  Instant begun;
  Duration compute;  // of all layers, without waiting
  std::uint32_t count = 1;
  double each_us() const { return static_cast<double>(compute.us) / count; }
};

// Returns how much of the time until `until` the batch has spent computing.
inline Duration computed_by(Instant until, const Layers& layers, const ArrivalInterval& in_flight) {
  const double part = static_cast<double>((in_flight.ends - in_flight.begins).us) / layers.count,
               each = layers.each_us();
  const auto end = static_cast<double>(until.us);
  double at = static_cast<double>(layers.begun.us), computed = 0;
  for (std::uint32_t layer = 1; layer <= layers.count; ++layer) {
    const double begins = std::max(at, static_cast<double>(in_flight.begins.us) + part * layer);
    if (begins >= end) break;
    computed += std::min(each, end - begins);
    at = begins + each;
  }
  return {static_cast<std::int64_t>(computed)};
}

// Returns the time until the current layer ends, given the time already computed. A batch whose blocks
// failed to arrive stops there.
inline Duration left_of_layer(Duration computed, const Layers& layers) {
  const double of_layer =
      layers.compute.us > 0 ? std::fmod(static_cast<double>(computed.us), layers.each_us()) : 0;
  return {of_layer > 0 ? static_cast<std::int64_t>(layers.each_us() - of_layer) : 0};
}

}  // namespace troupe::sim
