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
      {.name = "all_blocks", .plans = {"all_blocks"}},
      {.name = "planner", .plans = {"item", "user"}, .weighs = true, .displacement = Displacement::hotter},
  };
  return rows;
}

bool all_plans(const PolicyKind& kind, bool PlanKind::*what) {
  return kind.reuses &&
         std::ranges::all_of(kind.plans, [&](std::string_view plan) { return find_plan(plan)->*what; });
}

// Of "25"; none unless it is 1..100.
std::optional<double> share_of(std::string_view per_cent) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(per_cent.data(), per_cent.data() + per_cent.size(), number);
  if (error != std::errc() || end != per_cent.data() + per_cent.size() || number < 1 || number > 100)
    return std::nullopt;
  return number / 100.0;
}

// "tail", "mean", "layer2": false if it is none of these, or said before.
bool add_part(std::string_view part, RepairChoice& repair) {
  const RepairChoice before = repair;
  if (part == "mean")
    repair.mean = true;
  else if (part == "layer2")
    repair.exact_layers = 2;
  else if (const auto by = find_selection(part); by && repair.by == RepairChoice::By::first)
    repair.by = *by;
  return repair != before;
}

// Of "25" or "30:tail:mean".
std::optional<RepairChoice> repair_of(std::string_view text, const PolicyKind& kind) {
  const std::size_t colon = text.find(':');
  const std::optional<double> share = share_of(text.substr(0, colon));
  if (!share || !all_plans(kind, &PlanKind::repairs)) return std::nullopt;
  RepairChoice repair{.share = *share};
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t next = text.find(':', at + 1);
    const std::string_view part = text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    if (!all_plans(kind, &PlanKind::approximate) || !add_part(part, repair)) return std::nullopt;
    at = next;
  }
  return repair;
}

}  // namespace

std::span<const PolicyKind> policy_kinds() { return policies(); }

std::string Policy::name() const {
  std::string name(kind_->name);
  if (repair_.share <= 0) return name;
  name += '+' + std::to_string(std::lround(100 * repair_.share));
  if (repair_.by != RepairChoice::By::first) name += ':' + std::string(name_of(repair_.by));
  if (repair_.mean) name += ":mean";
  if (repair_.exact_layers > 1) name += ":layer" + std::to_string(repair_.exact_layers);
  return name;
}

std::optional<Policy> find_policy(std::string_view name) {
  const std::size_t plus = name.find('+');
  const auto kind = std::ranges::find(policies(), name.substr(0, plus), &PolicyKind::name);
  if (kind == policies().end()) return std::nullopt;
  if (plus == std::string_view::npos) return Policy(&*kind, {});
  const std::optional<RepairChoice> repair = repair_of(name.substr(plus + 1), *kind);
  if (!repair) return std::nullopt;
  return Policy(&*kind, *repair);
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
