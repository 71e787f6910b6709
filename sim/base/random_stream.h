#pragma once
// Random number generators of the simulated world (SplitMix64). Each thing that draws (a node, a network
// card, the world outside) has its own stream, made from the run's seed and a stream number. A fault in one
// node therefore leaves the draws of all others unchanged.
#include <cstdint>

#include "kernels/base/hash.h"
#include "runtime/actor/core.h"

namespace troupe {

class RandomStream {
 public:
  RandomStream() = default;
  RandomStream(std::uint64_t seed, std::uint64_t stream) : state_(seed) {
    state_ = next() ^ stream * 0xd1342543de82ef95;
    state_ = next();
  }

  std::uint64_t next() { return next_random(state_); }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool happens(std::uint32_t ppm) { return below(1'000'000) < ppm; }
  // Draws uniformly from [min, max].
  Duration between(Duration min, Duration max) {
    return {min.us + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(max.us - min.us) + 1))};
  }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace troupe
