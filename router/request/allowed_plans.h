#pragma once
// Decides by which plans a ranking request may be served: those of its policy whose arrangements the
// model's form allows (promise 21). A request that names no arrangement is served one of those that
// the form lists as interchangeable, or the form's first. It may name another declared one, by its
// word or by a policy that has only this one, such as `causal`.
#include <optional>
#include <string>
#include <vector>

#include "router/request/plans.h"
#include "router/request/policy.h"
#include "runtime/actor/arrangement.h"
#include "runtime/actor/prompt_form.h"

namespace troupe::router {

// Returns the arrangements of a policy's plans; empty = whatever the form allows.
std::vector<Arrangement> arrangements_of(const PolicyKind& policy);

// Refuses an arrangement that the form does not declare, and a policy that cannot serve what the form allows
// or the request names. `policy` is null if the request names none.
std::optional<Refusal> reject_if_not_allowed(const Policy* policy, Arrangement named, const PromptForm& form);

// Returns "" if requests that name nothing may be served by the policy, or why they may not.
std::string why_not_usual(const Policy& policy, const PromptForm& form);
// Returns the names of the policies that may be usual: "recompute, causal, planner".
std::string usual_policy_names(const PromptForm& form);

// Returns the policy of a request that names none: the usual one, or the planner if the usual one has
// no plan of the arrangement that the request names.
Policy policy_for(const Policy& usual, Arrangement named);

// Returns the plans to consider, the preferred one first. Requires that the policy is allowed.
// `approximate`: plans that approximate may be among them.
std::vector<const PlanKind*> allowed_plans(const Policy& policy, Arrangement named, const PromptForm& form,
                                           bool approximate);

}  // namespace troupe::router
