#pragma once
// Fingerprints identify requests by content: XXH3-64 over the length-prefixed parts. Every router
// and every process computes the same number. The requester and the time budget are not part of it. Nor
// are policy, arrangement and approximation of a ranking: whoever repeats a request that kills workers
// under another plan must not kill two more for each.
#include <cstdint>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::router {

std::uint64_t fingerprint(const RankRequest& request, std::uint64_t profile_version);
std::uint64_t fingerprint(const GenerateRequest& request, std::uint64_t profile_version);
std::uint64_t fingerprint(const CompleteRequest& request);
std::uint64_t fingerprint(const ScoreRequest& request);
std::uint64_t fingerprint(const EmbedRequest& request, std::uint64_t profile_version);
// Returns the position (0 to 999) of the user with hash `home` in the order in which users move to
// a next model. Users of a smaller share stay in every larger one. Another model gives another
// order.
std::uint32_t share_position(std::uint64_t home, std::string_view next_model);

}  // namespace troupe::router
