#pragma once
// What requests are recognised by: XXH3-64 over the length-prefixed parts, so that every router and every
// process of it comes to the same number. Whoever asks, and how long it may take, is no part of it.
#include <cstdint>
#include <string_view>

#include "runtime/actor/messages.h"

namespace troupe::router {

std::uint64_t fingerprint(const RankRequest& request, std::uint64_t profile_version);
std::uint64_t fingerprint(const GenerateRequest& request, std::uint64_t profile_version);
std::uint64_t fingerprint(const CompleteRequest& request);
std::uint64_t fingerprint(const ScoreRequest& request);
// Where who is `home` stands among the thousandths of users that a next model may have: those of a smaller
// share are among those of a larger one, and others' turn comes first with another model.
std::uint32_t share_place(std::uint64_t home, std::string_view next_model);

}  // namespace troupe::router
