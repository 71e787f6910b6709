#include "router/request/policy.h"

namespace troupe::router {
namespace {

// BAT §5.3: prefix(r) = user  if τ_u(r) ≥ τ_i(r) ∧ f_u(r) > min_{p ∈ C_u} f_p,  else item.
// Without the index nothing is known of C_u; item blocks serve everybody and need no admission.
Prefix bat_rule(std::uint32_t user_tokens, std::uint32_t item_tokens, const std::optional<Hotness>& hotness) {
  if (!hotness) return Prefix::item;
  const bool longer = user_tokens >= item_tokens;
  const bool hotter = hotness->user_frequency > hotness->coldest_frequency;
  return longer && hotter ? Prefix::user : Prefix::item;
}

}  // namespace

std::optional<Policy> find_policy(std::string_view name) {
  for (const Policy policy :
       {Policy::recompute, Policy::user, Policy::item, Policy::larger, Policy::bat, Policy::planner})
    if (name_of(policy) == name) return policy;
  return std::nullopt;
}

std::string_view name_of(Policy policy) {
  switch (policy) {
    case Policy::recompute:
      return "recompute";
    case Policy::user:
      return "user";
    case Policy::item:
      return "item";
    case Policy::larger:
      return "larger";
    case Policy::bat:
      return "bat";
    case Policy::planner:
      return "planner";
  }
  return "";
}

Prefix choose_prefix(Policy policy, std::uint32_t user_tokens, std::uint32_t item_tokens,
                     const std::optional<Hotness>& hotness) {
  switch (policy) {
    case Policy::recompute:
      return Prefix::none;
    case Policy::user:
      return Prefix::user;
    case Policy::item:
      return Prefix::item;
    case Policy::larger:
      return user_tokens >= item_tokens ? Prefix::user : Prefix::item;
    case Policy::planner:
      return Prefix::item;
    case Policy::bat:
      return bat_rule(user_tokens, item_tokens, hotness);
  }
  return Prefix::none;
}

}  // namespace troupe::router
