// Computes which arrangement a ranking must have, or why it must be refused, from what the model's form
// declares and what the request names.
#include "sim/cluster/expected_arrangement.h"

#include <algorithm>

namespace troupe::sim {
namespace {

using enum Arrangement;
using Arrangements = std::vector<Arrangement>;

std::string_view without_repair(std::string_view policy) { return policy.substr(0, policy.find('+')); }

// Returns the arrangements among which a policy chooses; empty = whatever the form allows.
Arrangements of_policy(std::string_view policy) {
  const std::string_view name = without_repair(policy);
  if (name == "user") return {user_first};
  if (name == "item") return {item_first};
  if (name == "larger" || name == "bat") return {user_first, item_first};
  if (name == "causal" || name == "blocks" || name == "all_blocks") return {causal};
  return {};
}

// Policies that have a plan with blocks of items.
bool can_repair(std::string_view policy) {
  return policy != "recompute" && policy != "user" && policy != "causal";
}

bool among(const Arrangements& all, Arrangement one) { return std::ranges::count(all, one) > 0; }

bool all_among(const Arrangements& all, const Arrangements& some) {
  return std::ranges::all_of(some, [&](Arrangement one) { return among(all, one); });
}

}  // namespace

std::string expected_refusal(const RankRequest& request, const PromptForm& form) {
  const Arrangement named = request.arrangement;
  const std::string_view name = without_repair(request.policy);
  if (name != request.policy && !can_repair(name)) return "unknown_policy";
  if (named != unnamed && !among(form.arrangements, named)) return "other_arrangement";
  const Arrangements own = of_policy(request.policy);
  if (own.empty()) return "";
  if (named != unnamed) return among(own, named) ? "" : "other_policy";
  if (own.size() == 1) return among(form.arrangements, own.front()) ? "" : "other_policy";
  return all_among(form.interchangeable, own) ? "" : "other_policy";
}

std::vector<Arrangement> expected_arrangements(const RankRequest& request, const PromptForm& form,
                                               std::string_view usual) {
  if (request.arrangement != unnamed) return {request.arrangement};
  const std::string_view policy = request.policy.empty() ? usual : std::string_view(request.policy);
  const Arrangements own = of_policy(policy);
  if (!own.empty()) return own;
  const bool chooses = without_repair(policy) != "recompute" && !form.interchangeable.empty();
  return chooses ? form.interchangeable : Arrangements{form.arrangements.front()};
}

}  // namespace troupe::sim
