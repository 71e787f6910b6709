#include "sim/cluster/expected_arrangement.h"

#include <doctest/doctest.h>

#include "router/request/allowed_plans.h"

using namespace troupe;
using namespace troupe::sim;

namespace expected_arrangement_test {

using enum Arrangement;

PromptForm form_of(std::vector<Arrangement> arrangements, std::vector<Arrangement> interchangeable = {}) {
  PromptForm form{.discriminant = {1}};
  form.arrangements = std::move(arrangements);
  form.interchangeable = std::move(interchangeable);
  return form;
}

RankRequest naming(std::string policy, Arrangement arrangement) {
  RankRequest request;
  request.policy = std::move(policy);
  request.arrangement = arrangement;
  return request;
}

TEST_CASE("expected arrangement: the form's first, unless the request or the form says otherwise") {
  const PromptForm first = form_of({user_first, causal}),
                   any = form_of({item_first, user_first, causal}, {item_first, user_first});
  using All = std::vector<Arrangement>;
  CHECK(expected_arrangements(naming("", unnamed), first, "planner") == All{user_first});
  CHECK(expected_arrangements(naming("", causal), first, "planner") == All{causal});
  CHECK(expected_arrangements(naming("blocks+30", unnamed), first, "planner") == All{causal});
  CHECK(expected_arrangements(naming("", unnamed), any, "planner") == All{item_first, user_first});
  CHECK(expected_arrangements(naming("", unnamed), any, "bat") == All{user_first, item_first});
  CHECK(expected_arrangements(naming("", unnamed), any, "user") == All{user_first});
  CHECK(expected_arrangements(naming("recompute", unnamed), any, "planner") == All{item_first});
}

TEST_CASE("expected arrangement: what the form does not allow must be refused") {
  const PromptForm form = form_of({user_first, causal});
  CHECK(expected_refusal(naming("", item_first), form) == "other_arrangement");
  CHECK(expected_refusal(naming("", history), form) == "other_arrangement");
  CHECK(expected_refusal(naming("item", unnamed), form) == "other_policy");
  CHECK(expected_refusal(naming("bat", unnamed), form_of({user_first, item_first})) == "other_policy");
  CHECK(expected_refusal(naming("user", causal), form) == "other_policy");
  CHECK(expected_refusal(naming("item+25", unnamed), form) == "other_policy");
  CHECK(expected_refusal(naming("item+25", unnamed), form_of({item_first})) == "");
  for (const char* policy : {"user+25", "causal+25", "recompute+25:tail"})
    CHECK_MESSAGE(expected_refusal(naming(policy, unnamed), form) == "unknown_policy", policy);
  for (const char* policy : {"", "user", "causal", "blocks+30:tail", "planner", "recompute"})
    CHECK_MESSAGE(expected_refusal(naming(policy, unnamed), form) == "", policy);
}

// Two accounts of the same rules. A difference is a fault of one of them.
TEST_CASE("expected arrangement: routers refuse and serve accordingly, for every form, policy and name") {
  const PromptForm forms[] = {form_of({causal}),
                              form_of({candidates_apart}),
                              form_of({causal, item_first, user_first}),
                              form_of({user_first, causal, candidates_apart}),
                              form_of({user_first, item_first}),
                              form_of({item_first, user_first, causal}, {item_first, user_first}),
                              form_of({item_first, causal, user_first}, {item_first, causal, user_first}),
                              form_of({causal, candidates_apart}, {causal, candidates_apart})};
  for (const PromptForm& form : forms)
    for (const char* policy : {"", "user", "item", "larger", "bat", "causal", "blocks+30:tail", "all_blocks",
                               "planner", "planner+10", "recompute", "item+25", "bat+30:tail"})
      for (const Arrangement named :
           {unnamed, causal, user_first, item_first, candidates_apart, history, towers}) {
        CAPTURE(words_of(form.arrangements));
        CAPTURE(policy);
        CAPTURE(word_of(named));
        const RankRequest request = naming(policy, named);
        const auto own = router::find_policy(policy);
        const auto refusal = router::reject_if_not_allowed(own ? &*own : nullptr, named, form);
        CHECK((refusal ? refusal->code : "") == expected_refusal(request, form));
        if (refusal) continue;
        const router::Policy chosen = own.value_or(router::policy_for(router::policy("planner"), named));
        const auto allowed = expected_arrangements(request, form, "planner");
        const auto plans = router::allowed_plans(chosen, named, form, true);
        if (chosen->plans.empty() && !chosen->weighs)  // without a rule the first plan is served
          CHECK(plans.front()->arrangement == allowed.front());
        else
          for (const router::PlanKind* plan : plans)
            CHECK(std::ranges::count(allowed, plan->arrangement) == 1);
      }
}

}  // namespace expected_arrangement_test
