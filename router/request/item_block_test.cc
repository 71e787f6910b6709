// Tests which blocks of items policies look up, and that plans and precomputed blocks agree on them.
#include "router/request/item_block.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "router/request/allowed_plans.h"

namespace troupe::router {
namespace {

using enum Arrangement;

PromptForm item_form(std::vector<Arrangement> arrangements, std::vector<Arrangement> interchangeable = {}) {
  PromptForm form;
  form.system = {1, 2};
  form.discriminant = {3};
  form.positions_max = 100;
  form.vocabulary = 100;
  form.arrangements = std::move(arrangements);
  form.interchangeable = std::move(interchangeable);
  return form;
}

// Marks candidates and scores each behind its own tokens.
PromptForm marked(bool blocks_see_system) {
  PromptForm form = item_form({causal});
  form.discriminant = {};
  form.item = {4, 5};
  form.score = {6};
  form.yes = 7;
  form.no = 8;
  form.blocks_see_system = blocks_see_system;
  return form;
}

TEST_CASE("item blocks: the kind follows from what the policy looks up by default") {
  const auto kind = [](std::string_view name, const PromptForm& form, double approximate = 0) {
    REQUIRE(why_not_usual(policy(name), form) == "");
    return item_block_kind(policy(name), form, approximate);
  };
  const PromptForm both = item_form({user_first, item_first, causal}, {user_first, item_first});
  for (const std::string_view name : {"item", "bat", "larger", "planner"})
    CHECK(kind(name, both) == ItemBlockKind::prefix);
  for (const std::string_view name : {"item+25:tail", "bat+25"})
    CHECK(kind(name, both) == ItemBlockKind::prefix);
  for (const std::string_view name : {"user", "recompute", "item+100"})
    CHECK(kind(name, both) == ItemBlockKind::none);

  const PromptForm plain = item_form({causal, item_first});  // item-first prompts are not usual
  CHECK(kind("planner", plain) == ItemBlockKind::none);
  CHECK(kind("planner", plain, 0.5) == ItemBlockKind::movable);
  CHECK(kind("causal", plain, 0.5) == ItemBlockKind::none);
  for (const std::string_view name : {"blocks", "blocks+30", "all_blocks+30:tail:mean"})
    CHECK(kind(name, plain) == ItemBlockKind::movable);
  CHECK(kind("blocks+100", plain) == ItemBlockKind::none);  // all tokens are recomputed
  CHECK(kind("planner", item_form({candidates_apart}), 0.5) == ItemBlockKind::none);
  for (const auto& pair : {std::vector{item_first, causal}, std::vector{causal, item_first}})
    CHECK(kind("planner", item_form(pair, pair), 0.5) == ItemBlockKind::prefix);

  PromptForm generator = item_form({causal});
  generator.discriminant = {};
  CHECK(item_block_kind(policy("planner"), generator, 1) == ItemBlockKind::none);
  PromptForm events = item_form({history});
  events.discriminant = {};
  CHECK(item_block_kind(policy("planner"), events, 1) == ItemBlockKind::none);
}

TEST_CASE("item blocks: plans look up the names of the blocks that are precomputed") {
  const Item item{"i", "", {10, 11, 12}, 20, {}};
  for (const auto& [form, name] :
       {std::pair{item_form({item_first}), "item"}, std::pair{marked(true), "item"},
        std::pair{marked(false), "item"}, std::pair{item_form({causal}), "blocks"},
        std::pair{marked(true), "blocks"}, std::pair{marked(false), "all_blocks"}}) {
    CAPTURE(name);
    const BlockNames names(form, {"model", "layout"}, false);
    const std::vector<ItemView> items{item};
    const Candidate made = find_plan(name)->build(
        {.form = form, .names = &names, .user = "u", .history = Tokens{30, 31}, .items = items});
    const ItemBlockKind kind = find_plan(name)->item_blocks;
    const std::vector<Token> tokens = item_block_tokens(kind, form, item.tokens);
    const BlockName wanted = item_block_name(kind, form, names, tokens);
    const auto at = std::ranges::find(made.blocks, wanted, &SegmentBlock::name);
    REQUIRE(at != made.blocks.end());
    const Segment& segment = made.plan.segments[static_cast<std::size_t>(at - made.blocks.begin())];
    CHECK(segment.tokens == Tokens(tokens));
    const ItemBlockPlace place = item_block_place(kind, form);
    CHECK(segment.start == place.start);
    CHECK((segment.sees == VisibleSegments::all_before(place.sees_system ? 1 : 0)));
  }
}

}  // namespace
}  // namespace troupe::router
