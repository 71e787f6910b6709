#pragma once
// Ranks workers for a user: the user's home is the worker with the highest rank (rendezvous
// hashing). A worker that joins or leaves moves only its own share of the users. Everybody who
// knows the same workers finds the same home.
#include <cstdint>

#include "kernels/base/hash.h"

namespace troupe::placement {

// Returns the rank of a worker for a user. `user` is a hash of the user; `node` is spread() of the
// node's number.
constexpr std::uint64_t home_rank(std::uint64_t user, std::uint64_t node) { return spread(user ^ node); }

}  // namespace troupe::placement
