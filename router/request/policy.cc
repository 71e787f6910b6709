// Lists the policies by name, with the plans that each considers and its rule for choosing one.
// Contains BAT's hotness-aware rule and its baselines.
#include "router/request/policy.h"

#include <algorithm>
#include <variant>

#include "kernels/base/check.h"
#include "router/request/plans.h"

namespace troupe::router {
namespace {

std::string_view larger_rule(const Situation& s) { return s.user_tokens >= s.item_tokens ? "user" : "item"; }

// BAT §5.3: prefix(r) = user  if τ_u(r) ≥ τ_i(r) ∧ f_u(r) > min_{p ∈ C_u} f_p,  else item.
// Without the index C_u is unknown, so the rule takes items: their blocks serve every user and need
// no admission.
std::string_view bat_rule(const Situation& s) {
  const bool longer = s.user_tokens >= s.item_tokens;
  const bool hotter = s.hotness && s.hotness->user_frequency > s.hotness->coldest_frequency;
  return longer && hotter ? "user" : "item";
}

const std::vector<PolicyKind>& policies() {
  static const std::vector<PolicyKind> rows{
      {.name = "recompute", .reuses = false},
      {.name = "user", .plans = {"user"}, .at_home = true},
      {.name = "item", .plans = {"item"}},
      {.name = "larger", .plans = {"user", "item"}, .rule = larger_rule, .at_home = true},
      {.name = "bat",
       .plans = {"user", "item"},
       .rule = bat_rule,
       .at_home = true,
       .displacement = Displacement::coldest_users},
      {.name = "causal", .plans = {"causal"}},
      {.name = "blocks", .plans = {"blocks"}, .displacement = Displacement::hotter},
      {.name = "all_blocks", .plans = {"all_blocks"}, .displacement = Displacement::hotter},
      {.name = "planner",
       .approximate_plans = {"blocks", "all_blocks", "prototypes"},
       .weighs = true,
       .displacement = Displacement::hotter},
  };
  return rows;
}

// Default repair of approximate plans: 0.991 of the NDCG and 0.949 of the top ten of the full
// computation (tests/bench/results/README.md), the best of all that were measured at that share. With
// prototypes for the history it keeps as much (docs/guides/tuning.md says how to measure it).
const RepairChoice usual_repair{.share = 0.3, .by = RepairChoice::By::tail, .mean = true, .exact_layers = 2};

// Returns the plans of a policy that a repair applies to.
std::span<const std::string_view> repaired_plans(const PolicyKind& kind) {
  return kind.approximate_plans.empty() ? kind.plans : kind.approximate_plans;
}

bool any_plan(const PolicyKind& kind, bool PlanKind::*what) {
  return kind.reuses && std::ranges::any_of(repaired_plans(kind),
                                            [&](std::string_view plan) { return find_plan(plan)->*what; });
}

// Parses "25" or "30:tail:mean". It is wrong also if the policy's plans cannot do it, or if it repairs
// nothing.
std::variant<RepairChoice, RepairFault> repair_of(std::string_view text, const PolicyKind& kind) {
  if (!any_plan(kind, &PlanKind::repairs))
    return RepairFault{"would have no blocks of items",
                       "a repair behind item, larger, bat, blocks, all_blocks or planner"};
  std::variant<RepairChoice, RepairFault> read = read_repair(text);
  const auto* repair = std::get_if<RepairChoice>(&read);
  if (!repair) return read;
  if (*repair == RepairChoice{}) return RepairFault{"repairs nothing", "no repair, or one of some tokens"};
  if ((repair->history >= 0 || repair->prototypes) && !any_plan(kind, &PlanKind::approximate))
    return RepairFault{"is of histories, which are no blocks in its plans", "parts for items alone"};
  return read;
}

const PolicyKind* find_kind_of(std::string_view name) {
  const auto kind = std::ranges::find(policies(), name.substr(0, name.find('+')), &PolicyKind::name);
  return kind == policies().end() ? nullptr : &*kind;
}

}  // namespace

std::span<const PolicyKind> policy_kinds() { return policies(); }

std::string Policy::name() const {
  return std::string(kind_->name) + (repair_ == RepairChoice{} ? "" : '+' + text_of(repair_));
}

const RepairChoice& Policy::repair() const {
  return repair_ == RepairChoice{} && !kind_->approximate_plans.empty() ? usual_repair : repair_;
}

RepairChoice Policy::repair_of(const PlanKind& plan) const {
  const bool is_repaired = plan.repairs && (plan.approximate || kind_->approximate_plans.empty());
  return is_repaired ? repair() : RepairChoice{};
}

std::optional<Policy> find_policy(std::string_view name) {
  const std::size_t plus = name.find('+');
  const PolicyKind* kind = find_kind_of(name);
  if (!kind) return std::nullopt;
  if (plus == std::string_view::npos) return Policy(kind, {});
  const auto read = router::repair_of(name.substr(plus + 1), *kind);
  const auto* repair = std::get_if<RepairChoice>(&read);
  return repair ? std::optional(Policy(kind, *repair)) : std::nullopt;
}

PolicyFault policy_fault(std::string_view name) {
  const std::size_t plus = name.find('+');
  const PolicyKind* kind = find_kind_of(name);
  if (!kind || plus == std::string_view::npos) return {"", policy_names()};
  const auto read = router::repair_of(name.substr(plus + 1), *kind);
  const auto* fault = std::get_if<RepairFault>(&read);
  TROUPE_CHECK(fault, "the name has something wrong");
  return {", whose repair " + fault->what, fault->expected};
}

std::string policy_fault_text(std::string_view name) {
  const PolicyFault fault = policy_fault(name);
  return '"' + std::string(name.substr(0, 80)) + '"' + fault.what + "; expected " + fault.expected;
}

Policy policy(std::string_view name) {
  const std::optional<Policy> found = find_policy(name);
  TROUPE_CHECK(found, "the policy exists");
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
