#pragma once
// A user's home among the workers: where the number below is highest (rendezvous hash). So a worker that
// comes or goes moves its own share of the users and nobody else, and whoever knows who is there comes to the
// same.
#include <cstdint>

#include "placement/popularity/spread.h"

namespace troupe::placement {

// `user`: a hash of whom it is about; `node`: spread() of the node's number.
constexpr std::uint64_t home_rank(std::uint64_t user, std::uint64_t node) { return spread(user ^ node); }

}  // namespace troupe::placement
