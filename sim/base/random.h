#pragma once
// Hashes and random draws of the simulated world. Values computed from numbers (a million items, a toy
// model's values) use `mix`; values drawn during a run use a RandomStream stream. Both are the same on every
// run and machine.
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/base/hash.h"
#include "runtime/actor/messages.h"
#include "sim/base/random_stream.h"

namespace troupe::sim {

// Combines the arguments into one hash; their order matters.
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return spread(spread(a) ^ b); }
template <class... More>
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, More... more) {
  return mix(mix(a, b), c, more...);
}

std::uint64_t hash_of(std::string_view text);
std::uint64_t hash_of(std::span<const Token> tokens);

// Maps the upper 53 bits to a number in (0, 1).
constexpr double to_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }
inline double unit(RandomStream& random) { return to_unit(random.next()); }
inline bool chance(RandomStream& random, double probability) { return unit(random) < probability; }

}  // namespace troupe::sim
