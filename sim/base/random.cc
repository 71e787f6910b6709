// Hashes texts and token lists, the same on every machine, so that a simulated run can be repeated.
#include "sim/base/random.h"

#include <xxhash.h>

namespace troupe::sim {

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits_withSeed(text.data(), text.size(), 1); }

std::uint64_t hash_of(std::span<const Token> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), 2);
}

}  // namespace troupe::sim
