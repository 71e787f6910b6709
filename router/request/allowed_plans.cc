// Restricts policies to the arrangements that a model's form declares.
#include "router/request/allowed_plans.h"

#include <algorithm>
#include <span>

#include "kernels/base/check.h"

namespace troupe::router {
namespace {

bool contains(std::span<const Arrangement> arrangements, Arrangement wanted) {
  return std::ranges::find(arrangements, wanted) != arrangements.end();
}

bool contains_all(std::span<const Arrangement> arrangements, std::span<const Arrangement> wanted) {
  return std::ranges::all_of(wanted, [&](Arrangement each) { return contains(arrangements, each); });
}

// Returns the arrangements of which a request may be served one.
std::vector<Arrangement> served(const Policy& policy, Arrangement named, const PromptForm& form) {
  if (named != Arrangement::unnamed) return {named};
  std::vector<Arrangement> own = arrangements_of(policy.kind());
  if (own.size() == 1) return own;
  return {form.served().begin(), form.served().end()};
}

std::string declared_text(const PromptForm& form) {
  std::string text = words_of(form.arrangements);
  if (!form.interchangeable.empty()) text += "; interchangeable: " + words_of(form.interchangeable);
  return text;
}

// Returns "" if a request that names this arrangement may have the policy, or why it may not.
std::string why_not_allowed(const PolicyKind& policy, Arrangement named, const PromptForm& form) {
  const std::vector<Arrangement> own = arrangements_of(policy);
  if (own.empty()) return "";
  if (named != Arrangement::unnamed)  // a declared one
    return contains(own, named) ? "" : "has no plan of arrangement \"" + std::string(word_of(named)) + "\"";
  if (!contains_all(form.arrangements, own))
    return "serves " + words_of(own) + ", which the model's form does not declare";
  if (own.size() > 1 && !contains_all(form.served(), own))
    return "chooses among " + words_of(own) + ", which the model's form does not list as interchangeable";
  return "";
}

// Returns the names of the policies for which `why_not` has no reason, separated by ", ".
template <class WhyNot>
std::string policy_names_without(const WhyNot& why_not) {
  std::string names;
  for (const PolicyKind& kind : policy_kinds())
    if (why_not(kind).empty()) names.append(names.empty() ? "" : ", ").append(kind.name);
  return names;
}

}  // namespace

std::vector<Arrangement> arrangements_of(const PolicyKind& policy) {
  std::vector<Arrangement> arrangements;
  for (const std::string_view name : policy.plans) {
    const Arrangement each = find_plan(name)->arrangement;
    if (!contains(arrangements, each)) arrangements.push_back(each);
  }
  return arrangements;
}

std::optional<Refusal> reject_if_not_allowed(const Policy* policy, Arrangement named,
                                             const PromptForm& form) {
  if (named != Arrangement::unnamed && !form.declares(named))
    return Refusal{RefusalKind::malformed, "other_arrangement",
                   "arrangement \"" + std::string(word_of(named)) + "\" is not declared by the model's form",
                   "arrangement", declared_text(form)};
  if (!policy) return std::nullopt;
  const std::string why = why_not_allowed(policy->kind(), named, form);
  if (why.empty()) return std::nullopt;
  const auto why_not = [&](const PolicyKind& kind) { return why_not_allowed(kind, named, form); };
  return Refusal{
      RefusalKind::malformed, "other_policy", "policy \"" + policy->name() + "\" " + why, "policy",
      "one of " + policy_names_without(why_not) + "; declared arrangements: " + declared_text(form)};
}

std::string why_not_usual(const Policy& policy, const PromptForm& form) {
  if (form.generates()) return "";  // no policy chooses among plans
  const std::vector<Arrangement> own = arrangements_of(policy.kind());
  if (contains_all(form.served(), own)) return "";
  return "serves " + words_of(own) + ", but the model's form allows requests that name none " +
         words_of(form.served()) + " alone";
}

std::string usual_policy_names(const PromptForm& form) {
  return policy_names_without([&](const PolicyKind& kind) { return why_not_usual(policy(kind.name), form); });
}

Policy policy_for(const Policy& usual, Arrangement named) {
  const std::vector<Arrangement> own = arrangements_of(usual.kind());
  if (named == Arrangement::unnamed || own.empty() || contains(own, named)) return usual;
  return policy("planner");
}

std::vector<const PlanKind*> allowed_plans(const Policy& policy, Arrangement named, const PromptForm& form,
                                           bool approximate) {
  const std::vector<Arrangement> arrangements = served(policy, named, form);
  std::vector<const PlanKind*> plans;
  if (policy->plans.empty())
    for (const Arrangement each : arrangements) plans.push_back(&exact_plan(each));
  // If the policy's repair takes prototypes anyway, the plan of prototypes would be all_blocks again.
  const bool no_prototypes = !form.prototype_set || policy.repair().prototypes;
  const auto add = [&](std::span<const std::string_view> names) {
    for (const std::string_view name : names)
      if (const PlanKind* plan = find_plan(name);
          contains(arrangements, plan->arrangement) && !(plan->of_prototypes && no_prototypes))
        plans.push_back(plan);
  };
  add(policy->plans);
  if (approximate) add(policy->approximate_plans);
  TROUPE_CHECK(!plans.empty(), "an allowed policy has a plan");
  return plans;
}

}  // namespace troupe::router
