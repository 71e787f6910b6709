#include "router/request/policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/base/check.h"
#include "router/request/plans.h"

namespace troupe::router {
namespace {

std::string_view larger_rule(const Situation& s) { return s.user_tokens >= s.item_tokens ? "user" : "item"; }

// BAT §5.3: prefix(r) = user  if τ_u(r) ≥ τ_i(r) ∧ f_u(r) > min_{p ∈ C_u} f_p,  else item.
// Without the index nothing is known of C_u; item blocks serve everybody and need no admission.
std::string_view bat_rule(const Situation& s) {
  const bool longer = s.user_tokens >= s.item_tokens;
  const bool hotter = s.hotness && s.hotness->user_frequency > s.hotness->coldest_frequency;
  return longer && hotter ? "user" : "item";
}

const std::vector<PolicyKind>& policies() {
  static const std::vector<PolicyKind> rows{
      {.name = "recompute", .plans = {"user"}, .reuses = false},
      {.name = "user", .plans = {"user"}},
      {.name = "item", .plans = {"item"}},
      {.name = "larger", .plans = {"user", "item"}, .rule = larger_rule},
      {.name = "bat", .plans = {"user", "item"}, .rule = bat_rule, .displacement = Displacement::coldest_users},
      {.name = "causal", .plans = {"causal"}},
      {.name = "blocks", .plans = {"blocks"}},
      {.name = "planner", .plans = {"item", "user"}, .weighs = true, .displacement = Displacement::hotter},
  };
  return rows;
}

bool can_repair(const PolicyKind& kind) {
  return kind.reuses &&
         std::ranges::all_of(kind.plans, [](std::string_view plan) { return find_plan(plan)->repairs; });
}

// Of "25"; none unless it is 1..100.
std::optional<double> share_of(std::string_view per_cent) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(per_cent.data(), per_cent.data() + per_cent.size(), number);
  if (error != std::errc() || end != per_cent.data() + per_cent.size() || number < 1 || number > 100)
    return std::nullopt;
  return number / 100.0;
}

}  // namespace

std::span<const PolicyKind> policy_kinds() { return policies(); }

std::string Policy::name() const {
  if (repair_ <= 0) return std::string(kind_->name);
  return std::string(kind_->name) + '+' + std::to_string(std::lround(100 * repair_));
}

std::optional<Policy> find_policy(std::string_view name) {
  const std::size_t plus = name.find('+');
  const auto kind = std::ranges::find(policies(), name.substr(0, plus), &PolicyKind::name);
  if (kind == policies().end()) return std::nullopt;
  if (plus == std::string_view::npos) return Policy(&*kind, 0);
  const std::optional<double> share = share_of(name.substr(plus + 1));
  if (!share || !can_repair(*kind)) return std::nullopt;
  return Policy(&*kind, *share);
}

Policy policy(std::string_view name) {
  const std::optional<Policy> found = find_policy(name);
  TROUPE_CHECK(found, "there is such a policy");
  return *found;
}

std::string policy_names() {
  std::string names;
  for (const PolicyKind& kind : policies()) {
    if (!names.empty()) names += &kind == &policies().back() ? " or " : ", ";
    names += kind.name;
  }
  return names;
}

}  // namespace troupe::router
