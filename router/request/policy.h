#pragma once
// Which of a request's blocks may be reused: the named policies of BAT §6 (`larger` is its cache-agnostic
// baseline of §6.3), and the planner (planner.h). The papers' choices are pure functions of sizes and
// hotness, so that a policy can be tested against its paper with numbers.
#include <cstdint>
#include <optional>
#include <string_view>

#include "router/request/plan.h"

namespace troupe::router {

enum class Policy : std::uint8_t { recompute, user, item, larger, bat, planner };

std::optional<Policy> find_policy(std::string_view name);
std::string_view name_of(Policy policy);
inline constexpr std::string_view policy_names = "recompute, user, item, larger, bat or planner";

struct Hotness {
  double user_frequency = 0;  // f_u: uses of this user in the sliding window, this one included
  double coldest_frequency =
      0;  // min f_p over the cached user blocks C_u; 0 while there is room for this user
};

// `hotness` is absent if the index did not answer in time. The planner's choice depends on the node and is
// made there (planner.h); this is the one without an index.
Prefix choose_prefix(Policy policy, std::uint32_t user_tokens, std::uint32_t item_tokens,
                     const std::optional<Hotness>& hotness);

}  // namespace troupe::router
