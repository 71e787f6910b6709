#pragma once
// Estimates which fraction of a plan's embedding rows a worker holds in memory, from the shards
// that its heartbeat reports. It follows HLEM §IV-C, where a user's profile is the shards with most
// of the user's rows. In a model whose tokens are items, the plan's tokens are its rows.
#include <cstddef>

#include "runtime/actor/messages.h"

namespace troupe::router {

// shards of a plan that count: those with most of its tokens
inline constexpr std::size_t profile_shards = 20;

// Returns 0 to 1: the mean over those shards; 1 for a worker whose tables are in memory.
double rows_found(const Plan& plan, const Heartbeat& beat);
std::size_t rows_of(const Plan& plan);

}  // namespace troupe::router
