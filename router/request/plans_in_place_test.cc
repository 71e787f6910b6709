// Tests of approximate plans in which some items are computed in their place.
#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "router/request/plan_cost.h"
#include "router/request/plans.h"

namespace troupe::router {
namespace plans_in_place_test {

const NameContext context{"m", "l"};

PromptForm framed() { return {{1, 10, 11}, {4}, {7, 8}, {5}, 512, 1'000}; }

PromptForm scored_each() {
  PromptForm form;
  form.system = {1, 10, 11};
  form.event = {4};
  form.item = {6};
  form.score = {7};
  form.yes = 8, form.no = 9;
  form.blocks_see_system = true;
  form.positions_max = 512;
  form.vocabulary = 1'000;
  return form;
}

// A prompt of two events and items of 4, 2 and 3 tokens.
struct Prompt {
  explicit Prompt(PromptForm prompt_form = framed()) : form(std::move(prompt_form)), names(form, context) {
    Profile profile{1, std::vector<Token>(6), {3, 3}};
    std::iota(profile.tokens.begin(), profile.tokens.end(), 20);
    for (const std::size_t tokens : {4, 2, 3}) {
      const auto n = static_cast<Token>(items.size());
      items.push_back({"item " + std::to_string(n), "", std::vector<Token>(tokens, 100 + n), 500 + n, {}});
    }
    history = fit_history(form, profile, 20);
  }
  Candidate build(std::string_view plan, const RepairChoice& repair, std::vector<std::uint8_t> in_place = {},
                  double approximate = 1) const {
    const std::vector<ItemView> seen = views(items);
    Candidate made = find_plan(plan)->build({.form = form,
                                             .names = &names,
                                             .user = "u",
                                             .history = history.tokens,
                                             .events = history.events,
                                             .items = seen,
                                             .repair = repair,
                                             .approximate_max = approximate,
                                             .in_place = in_place});
    kernels::PlanLimits limits{1'000, 512};
    limits.repairs = true;
    CHECK(validate(made.plan, limits) == "");
    return made;
  }

  PromptForm form;
  BlockNames names;
  std::vector<Item> items;
  FittedHistory history;
};

std::vector<std::string> item_owners(const Candidate& candidate) {
  std::vector<std::string> owners;
  for (std::size_t i = 0; i < candidate.blocks.size(); ++i)
    if (candidate.blocks[i].name && candidate.plan.segments[i].kind == SegmentKind::item)
      owners.push_back(candidate.blocks[i].owner);
  return owners;
}

TEST_CASE("blocks plan: an item in its place has its own tokens, position and context, and no block") {
  const Prompt prompt;
  const Candidate made = prompt.build("blocks", {.share = 0.5}, {0, 1, 0});
  // system; blocks of items 0 and 2; user; span, item 1, span; instruction; discriminant
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 9);
  CHECK(item_owners(made) == std::vector<std::string>{"item 0", "item 2"});
  CHECK(made.in_place == std::vector<std::uint32_t>{1});
  CHECK(s[5].kind == SegmentKind::item);
  CHECK(s[5].tokens == Tokens{101, 101});
  CHECK(s[5].start == 3 + 7 + 4);
  CHECK(s[5].sees == VisibleSegments{0, 3, 4});
  CHECK_FALSE(made.blocks[5].name.has_value());
  CHECK(s[6].start == 3 + 7 + 4 + 2);
  CHECK(s[6].sees == VisibleSegments{0, 3, 4, 5});
  CHECK(s[8].sees == VisibleSegments{0, 3, 4, 5, 6, 7});
  using Span = kernels::Repair::ReusedSpan;
  CHECK(made.plan.repair.reused_spans == std::vector<Span>{{4, 1}, {6, 2}});
  CHECK(made.plan.repair.always == std::vector<std::uint32_t>{0, 1, 4, 5});  // halves of 4 and 3 tokens
  const Candidate all = prompt.build("blocks", {.share = 0.5});
  CHECK(all.in_place.empty());
  CHECK(prompt_tokens(made.plan) == prompt_tokens(all.plan));
  CHECK(kept_tokens(made.plan) == 3);
  CHECK(kept_tokens(all.plan) == 4);
}

TEST_CASE("blocks plan: with all items in their place it is the plain prompt") {
  const Prompt prompt;
  const Candidate made = prompt.build("blocks", {.share = 0.5}, {1, 1, 1});
  CHECK(made.plan == prompt.build("causal", {}).plan);
  CHECK(made.in_place == std::vector<std::uint32_t>{0, 1, 2});
  // Items that are computed in full have no blocks, so none can be missing.
  CHECK(prompt.build("blocks", {.share = 1}, {1, 1, 1}).in_place.empty());
  CHECK(prompt.build("blocks", {.share = 0.5}, {1, 1, 1}, 0).in_place.empty());
}

TEST_CASE("all_blocks plan: items in their place leave the events' blocks and their budget") {
  const Prompt prompt;
  const RepairChoice choice{.share = 0.5, .by = RepairChoice::By::attention, .history = 0};
  const Candidate some = prompt.build("all_blocks", choice, {1, 0, 1});
  CHECK(item_owners(some) == std::vector<std::string>{"item 1"});
  CHECK(some.plan.repair.reused_spans.size() == 3);
  CHECK(some.plan.repair.budgets == std::vector<std::uint32_t>{0, 1});
  const Candidate none = prompt.build("all_blocks", choice, {1, 1, 1});
  CHECK(none.plan.repair.reused_spans.size() == 2);
  CHECK(none.plan.repair.budgets == std::vector<std::uint32_t>{0});
}

TEST_CASE(
    "blocks plan: the selection by tail counts attention from behind the last item, also in its place") {
  for (const PromptForm& form : {framed(), scored_each()}) {
    const Prompt prompt(form);
    const auto attending = [&](std::vector<std::uint8_t> in_place) {
      const Plan plan =
          prompt.build("blocks", {.share = 0.5, .by = RepairChoice::By::tail}, std::move(in_place)).plan;
      return plan.segments.at(plan.repair.attending);
    };
    for (const std::vector<std::uint8_t>& in_place :
         {std::vector<std::uint8_t>{0, 1, 0}, {0, 0, 1}, {0, 1, 1}}) {
      const Segment first = attending(in_place), expected = attending({});
      CHECK(first.tokens == expected.tokens);
      CHECK(first.start == expected.start);
    }
  }
}

TEST_CASE(
    "plan cost: an item in its place costs what it costs in the plain prompt, and no block is asked for") {
  const Prompt prompt;
  const placement::UnitCosts costs{.token_operations = 1, .layers = 8};
  const auto cost = [&](std::string_view plan, std::vector<std::uint8_t> in_place) {
    return PlanCost(costs, prompt.build(plan, {.share = 0.5}, std::move(in_place)), 0);
  };
  CHECK(cost("blocks", {0, 1, 0}).asked() == cost("blocks", {}).asked() - 1);
  CHECK(cost("blocks", {1, 1, 1}).nothing_held().operations == cost("causal", {}).nothing_held().operations);
  const double spared =
      cost("blocks", {}).nothing_held().operations - cost("blocks", {0, 1, 0}).nothing_held().operations;
  CHECK(spared > 0);
  CHECK(spared <= 2);  // the repair of its tokens
}

}  // namespace plans_in_place_test
}  // namespace troupe::router
