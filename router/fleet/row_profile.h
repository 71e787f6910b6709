#pragma once
// Which part of a plan's rows of an embedding table a worker has at hand, by what its heartbeat says of the
// table's shards: HLEM §IV-C, whose users have the shards that most of their rows are in. In a model whose
// tokens are items, a plan's tokens are its rows.
#include <cstddef>

#include "runtime/actor/messages.h"

namespace troupe::router {

inline constexpr std::size_t profile_shards = 20;  // of a plan, those that most of its tokens are in

// 0 to 1, in the mean over those shards; 1 of a worker whose tables are in memory.
double rows_found(const Plan& plan, const Heartbeat& beat);
std::size_t rows_of(const Plan& plan);

}  // namespace troupe::router
