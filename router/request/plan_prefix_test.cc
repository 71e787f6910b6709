// Tests the item-first plan with a repair, and the prefix plans of forms that score each candidate.
#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "router/testing/plans_test.h"

namespace troupe::router {
namespace plan_prefix_test {

using namespace plans_test;

// Form of tiny-ranker-titles: each candidate is marked, and scored behind one token.
PromptForm titles() {
  PromptForm form;
  form.system = {1, 9, 10, 11, 12, 13, 14, 15};
  form.positions_max = 512;
  form.vocabulary = 6'646;
  form.event = {4};
  form.item = {5};
  form.score = {6};
  form.yes = 7;
  form.no = 8;
  form.blocks_see_system = true;
  return form;
}

TEST_CASE("item prefix: repaired items fill spans from their blocks, and see the items before them") {
  const std::vector<Item> items = candidates({4, 2, 3});
  const Candidate made = build("item", fit_history(games(), history_of(1), 4), items, {.share = 0.5});
  // system; three blocks; their spans; user; instruction; discriminant
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 10);
  REQUIRE(made.plan.repair.reused_spans.size() == 3);
  for (std::uint32_t item = 0; item < 3; ++item) {
    CHECK(s[1 + item].start == 8);
    CHECK(s[1 + item].sees == VisibleSegments{0});
    CHECK(made.blocks[1 + item].name == items[item].block);
    CHECK(made.blocks[1 + item].owner == items[item].id);
    CHECK(s[4 + item].start == 8);
    CHECK(s[4 + item].tokens == s[1 + item].tokens);
    CHECK_FALSE(made.blocks[4 + item].name.has_value());
    CHECK(made.plan.repair.reused_spans[item] == kernels::Repair::ReusedSpan{4 + item, 1 + item, 0});
  }
  CHECK(s[4].sees == VisibleSegments{0});
  CHECK(s[6].sees == VisibleSegments{0, 4, 5});
  CHECK(s[7].start == 12);  // after the longest item
  CHECK(s[7].sees == VisibleSegments{0, 4, 5, 6});
  CHECK(s[9].sees == VisibleSegments{0, 4, 5, 6, 7, 8});
  CHECK(made.plan.repair.always == std::vector<std::uint32_t>{0, 1, 4, 6, 7});  // half of three is two
  CHECK(made.approximate == 5);
  CHECK(approximate_share(made) == 5.0 / static_cast<double>(prompt_tokens(made.plan)));
  CHECK(validate(made.plan, limits) == "");
}

TEST_CASE("item prefix: a repair selects and corrects as the choice says, and counts what it changes") {
  const std::vector<Item> items = candidates({4, 2, 3});
  const FittedHistory history = fit_history(games(), history_of(1), 4);
  const auto made = [&](const RepairChoice& choice) { return build("item", history, items, choice); };
  using By = RepairChoice::By;
  const Candidate tail = made({.share = 0.3, .by = By::tail, .window = 2});
  CHECK(tail.plan.repair.budgets == std::vector<std::uint32_t>{3});
  CHECK(tail.plan.repair.always == std::vector<std::uint32_t>{7, 8});
  CHECK(tail.plan.repair.attention == 1);
  CHECK(tail.plan.repair.attending == 7);  // the user
  CHECK(tail.approximate == 5);
  for (const RepairChoice& corrects : {RepairChoice{.share = 0.3, .by = By::tail, .mean = true},
                                       RepairChoice{.share = 0.3, .by = By::importance, .exact_layers = 2}})
    CHECK(made(corrects).approximate == 9);  // the tokens that are not chosen change too
  const Candidate exact = made({});
  CHECK(exact.approximate == 0);
  for (const RepairChoice& nothing :
       {RepairChoice{.share = 0.1}, RepairChoice{.by = By::tail}, RepairChoice{.by = By::tail, .mean = true}})
    CHECK(made(nothing).plan == exact.plan);
}

TEST_CASE("item prefix: a limit on what is approximate lowers the repair, down to the exact plan") {
  const std::vector<Item> items = candidates({4, 2, 3});
  const FittedHistory history = fit_history(games(), history_of(1), 4);
  const PromptForm form = games();
  const std::vector<ItemView> seen = views(items);
  const auto made = [&](const RepairChoice& choice, double approximate_max) {
    return item_plan({.form = form,
                      .history = history.tokens,
                      .events = history.events,
                      .items = seen,
                      .repair = choice,
                      .approximate_max = approximate_max});
  };
  using By = RepairChoice::By;
  const RepairChoice tail{.share = 0.5, .by = By::tail, .window = 2}, first{.share = 0.5}, all{.share = 1};
  const Candidate exact = made({}, 1);
  const auto tokens = static_cast<double>(prompt_tokens(exact.plan));
  CHECK(made(tail, 1).approximate == 7);
  CHECK(made(tail, 4.5 / tokens).plan.repair.budgets == std::vector<std::uint32_t>{2});
  CHECK(made(tail, 1.5 / tokens).plan.repair.budgets == std::vector<std::uint32_t>{0});
  CHECK(made(tail, 1.5 / tokens).plan.repair.always == std::vector<std::uint32_t>{7});
  CHECK(made(first, 3.5 / tokens).plan.repair.always == std::vector<std::uint32_t>{0, 1, 4});
  CHECK(made(all, 3.5 / tokens).approximate == 3);
  for (const double none : {0.0, 0.5 / tokens}) CHECK(made(tail, none).plan == exact.plan);
  CHECK(made({.share = 0.5, .by = By::tail, .mean = true}, 8.5 / tokens).plan == exact.plan);
  CHECK(made({.share = 0.5, .by = By::tail, .exact_layers = 2}, 9.5 / tokens).approximate == 9);
}

TEST_CASE("repair: a full repair leaves no block") {
  const std::vector<Item> items = candidates({4, 2});
  const Candidate made = build("item", fit_history(games(), history_of(1), 4), items, {.share = 1});
  REQUIRE(made.plan.segments.size() == 6);
  CHECK(made.plan.segments[2].sees == VisibleSegments{0, 1});
  CHECK(made.plan.repair == kernels::Repair{});
  CHECK(made.approximate == 6);
  for (std::size_t i = 1; i < 6; ++i) CHECK_FALSE(made.blocks[i].name.has_value());
}

TEST_CASE("title form: user first, the prompt is that of candidates apart") {
  const std::vector<Item> items = candidates({2, 3});
  const FittedHistory history = fit_history(titles(), history_of(2), 6);
  const Candidate user = build("user", history, items, {}, titles()),
                  apart = build("apart", history, items, {}, titles());
  CHECK(user.name == "user");
  CHECK(user.plan == apart.plan);
  for (std::size_t i = 0; i < user.blocks.size(); ++i) CHECK(user.blocks[i].name == apart.blocks[i].name);
  for (const char* plan : {"user", "item", "apart"})
    CHECK(item_positions(*find_plan(plan), titles(), views(items)) == 1 + 3 + 1);
}

TEST_CASE("title form: item first, each score is behind the user and sees its candidate alone") {
  const std::vector<Item> items = candidates({2, 3});
  const BlockNames names(titles(), context);
  const FittedHistory history = fit_history(titles(), history_of(2), 5);
  const Candidate made = build("item", history, items, {}, titles());
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 6);  // system, two candidates, history (10 tokens), a score for each candidate
  CHECK(s[1].tokens == Tokens{5, 100, 100});
  CHECK(made.blocks[1].name == names.item(std::vector<Token>{5, 100, 100}));
  CHECK(made.blocks[1].owner == items[0].id);
  for (const std::size_t candidate : {1, 2}) {
    CHECK(s[candidate].start == 8);
    CHECK(s[candidate].sees == VisibleSegments{0});
  }
  CHECK(s[3].tokens == history.tokens);
  CHECK(s[3].start == 8 + 4);  // behind the longest candidate
  CHECK(s[3].sees == VisibleSegments{0, 1, 2});
  CHECK(s[4].sees == VisibleSegments{0, 1, 3});
  CHECK(s[5].sees == VisibleSegments{0, 2, 3});
  for (const std::size_t score : {4, 5}) {
    CHECK(s[score].kind == SegmentKind::discriminant);
    CHECK(s[score].tokens == Tokens{6});
    CHECK(s[score].start == 12 + 10);
    CHECK_FALSE(made.blocks[score].name.has_value());
  }
  CHECK(made.plan.readouts == std::vector<Readout>{{4, 0, {7, 8}}, {5, 0, {7, 8}}});
  CHECK(validate(made.plan, limits) == "");
  // Repaired, the scores see the spans in the candidates' place.
  const Candidate repaired =
      build("item", history, items, {.share = 0.5, .by = RepairChoice::By::tail}, titles());
  const auto& r = repaired.plan.segments;
  REQUIRE(r.size() == 8);
  CHECK(repaired.blocks[1].name == made.blocks[1].name);
  CHECK(r[6].sees == VisibleSegments{0, 3, 5});
  CHECK(r[7].sees == VisibleSegments{0, 4, 5});
  CHECK(repaired.plan.repair.attending == 5);
  CHECK(repaired.plan.readouts == std::vector<Readout>{{6, 0, {7, 8}}, {7, 0, {7, 8}}});
  CHECK(validate(repaired.plan, limits) == "");
}

}  // namespace plan_prefix_test
}  // namespace troupe::router
