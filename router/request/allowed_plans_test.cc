#include "router/request/allowed_plans.h"

#include <doctest/doctest.h>

#include <memory>

#include "runtime/testing/shared_ranker.h"

namespace troupe::router {
namespace {

using enum Arrangement;

PromptForm form_of(std::vector<Arrangement> arrangements, std::vector<Arrangement> interchangeable = {}) {
  PromptForm form{{1}, {2}, {3}, {4}, 64, 100};
  form.arrangements = std::move(arrangements);
  form.interchangeable = std::move(interchangeable);
  return form;
}

// Returns the names of the plans that a request may get: its policy, or ("") the usual one, the planner.
std::string plans_of(const std::string& name, Arrangement named, const PromptForm& form,
                     bool approximate = false) {
  const Policy usual = policy_for(policy("planner"), named);
  const auto chosen = find_policy(name);
  if (const auto refusal = reject_if_not_allowed(chosen ? &*chosen : nullptr, named, form))
    return refusal->code;
  std::string text;
  for (const PlanKind* plan : allowed_plans(chosen.value_or(usual), named, form, approximate))
    text.append(text.empty() ? "" : " ").append(plan->name);
  return text;
}

TEST_CASE("allowed plans: a form that declares nothing is served its plain prompt alone") {
  const PromptForm form = form_of({causal});
  for (const char* policy : {"", "planner", "recompute", "causal"})
    CHECK_MESSAGE(plans_of(policy, unnamed, form) == "causal", policy);
  for (const char* policy : {"user", "item", "bat", "larger"})
    CHECK_MESSAGE(plans_of(policy, unnamed, form) == "other_policy", policy);
  CHECK(plans_of("", causal, form) == "causal");
  CHECK(plans_of("", item_first, form) == "other_arrangement");
}

TEST_CASE("allowed plans: the first declared arrangement serves, others if a request names them") {
  const PromptForm form = form_of({user_first, causal, item_first});
  CHECK(plans_of("", unnamed, form) == "user");
  CHECK(plans_of("", item_first, form) == "item");
  CHECK(plans_of("recompute", causal, form) == "causal");
  CHECK(plans_of("item", unnamed, form) == "item");  // the policy has one arrangement, which names it
  CHECK(plans_of("item", item_first, form) == "item");
  CHECK(plans_of("item", user_first, form) == "other_policy");
  CHECK(plans_of("bat", unnamed, form) == "other_policy");  // both are declared, but not interchangeable
  CHECK(plans_of("bat", user_first, form) == "user");
  CHECK(plans_of("bat", user_first, form_of({user_first, causal})) == "user");
}

TEST_CASE("allowed plans: policies choose among interchangeable arrangements alone") {
  const PromptForm form = shared_ranker(form_of({causal}));
  CHECK(plans_of("", unnamed, form) == "item user");
  CHECK(plans_of("bat", unnamed, form) == "user item");
  CHECK(plans_of("", causal, form) == "causal");
}

TEST_CASE("allowed plans: approximate plans belong to the plain prompt") {
  CHECK(plans_of("", unnamed, form_of({causal}), true) == "causal blocks all_blocks");
  CHECK(plans_of("", unnamed, form_of({item_first, causal}), true) == "item");
  CHECK(plans_of("", causal, form_of({item_first, causal}), true) == "causal blocks all_blocks");
  CHECK(plans_of("blocks", unnamed, form_of({item_first, causal}), true) == "blocks");
  CHECK(plans_of("blocks", unnamed, form_of({item_first}), true) == "other_policy");
}

// Prototypes of no tokens.
class NoTokens final : public PrototypeSet {
 public:
  bool has_prototype(Token, std::uint32_t) const override { return false; }
  const std::string& checksum() const override { return text_; }
  const std::string& model_version() const override { return text_; }

 private:
  const std::string text_ = "none";
};

TEST_CASE("allowed plans: the planner weighs the plan of prototypes where the model has some, and once") {
  PromptForm form = form_of({causal});
  form.prototype_set = std::make_shared<NoTokens>();
  CHECK(plans_of("", unnamed, form, true) == "causal blocks all_blocks prototypes");
  CHECK(plans_of("planner+40:tail", unnamed, form, true) == "causal blocks all_blocks prototypes");
  CHECK(plans_of("planner+40:tail:prototypes", unnamed, form, true) == "causal blocks all_blocks");
  CHECK(plans_of("", unnamed, form, false) == "causal");
  CHECK(plans_of("all_blocks+30", unnamed, form, true) == "all_blocks");
  CHECK(plans_of("prototypes", unnamed, form, false) == "causal");  // a plan, and no policy
}

TEST_CASE("allowed plans: models whose tokens are items have one plan, and policies that serve any") {
  for (const auto& [arrangement, plan] : {std::pair{history, "history"}, {towers, "towers"}}) {
    CHECK(plans_of("", unnamed, form_of({arrangement})) == plan);
    CHECK(plans_of("recompute", unnamed, form_of({arrangement})) == plan);
    CHECK(plans_of("user", unnamed, form_of({arrangement})) == "other_policy");
  }
}

TEST_CASE("allowed plans: a usual policy without a plan of the named arrangement gives way to the planner") {
  CHECK(policy_for(policy("bat"), unnamed).name() == "bat");
  CHECK(policy_for(policy("bat"), item_first).name() == "bat");
  CHECK(policy_for(policy("bat"), causal).name() == "planner");
  CHECK(policy_for(policy("recompute"), causal).name() == "recompute");
}

TEST_CASE("allowed plans: a refusal says what the policy serves, what the form allows, and what to ask for") {
  const Policy bat = policy("bat"), item = policy("item");
  const auto chooses = reject_if_not_allowed(&bat, unnamed, form_of({user_first, item_first}));
  REQUIRE(chooses);
  CHECK(chooses->what ==
        "policy \"bat\" chooses among user_first, item_first, which the model's form does not list as "
        "interchangeable");
  const auto undeclared = reject_if_not_allowed(&item, unnamed, form_of({causal}));
  REQUIRE(undeclared);
  CHECK(undeclared->what == "policy \"item\" serves item_first, which the model's form does not declare");
  CHECK(undeclared->where == "policy");
  CHECK(undeclared->expected ==
        "one of recompute, causal, blocks, all_blocks, planner; declared arrangements: causal");
}

TEST_CASE("allowed plans: a repair of an item-first plan is allowed where the plan is") {
  const PromptForm shared = shared_ranker(form_of({causal}));
  CHECK(plans_of("item+25", unnamed, form_of({item_first})) == "item");
  CHECK(plans_of("item+100:tail", item_first, form_of({causal, item_first})) == "item");
  CHECK(plans_of("item+25", unnamed, form_of({causal})) == "other_policy");
  CHECK(plans_of("item+25", causal, form_of({causal, item_first})) == "other_policy");
  CHECK(plans_of("bat+25", unnamed, shared) == "user item");
  CHECK(plans_of("bat+25", unnamed, form_of({user_first, item_first})) == "other_policy");
  CHECK(plans_of("planner+40", unnamed, shared, true) == "item user");
  CHECK(why_not_usual(policy("item+25"), form_of({item_first})) == "");
  CHECK(why_not_usual(policy("item+25"), form_of({causal})) != "");
  for (const char* approximate : {"blocks+30:tail", "all_blocks+30", "planner+40:tail:mean"})
    CHECK_MESSAGE(why_not_usual(policy(approximate), form_of({causal})) == "", approximate);
}

TEST_CASE("usual policies: those that serve only what the form allows to requests that name nothing") {
  CHECK(usual_policy_names(form_of({causal})) == "recompute, causal, blocks, all_blocks, planner");
  CHECK(usual_policy_names(form_of({user_first, causal})) == "recompute, user, planner");
  CHECK(usual_policy_names(shared_ranker(form_of({causal}))) ==
        "recompute, user, item, larger, bat, planner");
  CHECK(
      why_not_usual(policy("bat"), form_of({user_first})) ==
      "serves user_first, item_first, but the model's form allows requests that name none user_first alone");
}

}  // namespace
}  // namespace troupe::router
