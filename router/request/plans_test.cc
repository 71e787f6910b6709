#include "router/request/plans.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <tuple>

#include "router/testing/plans_test.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace {

using namespace plans_test;

TEST_CASE("user prefix: positions and visibility match the model's description") {
  const FittedHistory history = fit_history(games(), history_of(3), 4);
  const std::vector<Item> items = candidates({4, 4});
  const Candidate plan = build("user", history, items);
  const auto& s = plan.plan.segments;
  REQUIRE(s.size() == 6);  // system, user (U = 13), two items, instruction, discriminant
  CHECK(s[0].start == 0);
  CHECK(s[0].sees == VisibleSegments{});
  CHECK(s[1].kind == SegmentKind::user);
  CHECK(s[1].tokens.size() == 13);
  CHECK(s[1].tokens[0] == 4);
  CHECK(s[1].start == 8);
  CHECK(s[1].sees == VisibleSegments{0});
  for (std::size_t item : {2, 3}) {
    CHECK(s[item].start == 8 + 13);
    CHECK(s[item].sees == VisibleSegments{0, 1});
  }
  CHECK(s[4].start == 8 + 13 + 4);
  CHECK(s[4].sees == VisibleSegments{0, 1, 2, 3});
  CHECK(s[5].start == 8 + 13 + 4 + 3);
  CHECK(s[5].sees == VisibleSegments{0, 1, 2, 3, 4});
  REQUIRE(plan.plan.readouts.size() == 1);
  CHECK(plan.plan.readouts[0] == Readout{5, 0, {1'044, 1'045}});
}

TEST_CASE("item prefix: positions and visibility match the model's description") {
  const FittedHistory history = fit_history(games(), history_of(3), 4);
  const std::vector<Item> items = candidates({4, 2});
  const Candidate plan = build("item", history, items);
  const auto& s = plan.plan.segments;
  REQUIRE(s.size() == 6);  // system, two items, user, instruction, discriminant
  for (std::size_t item : {1, 2}) {
    CHECK(s[item].kind == SegmentKind::item);
    CHECK(s[item].start == 8);
    CHECK(s[item].sees == VisibleSegments{0});
  }
  CHECK(s[3].kind == SegmentKind::user);
  CHECK(s[3].start == 12);  // after the longest item
  CHECK(s[3].sees == VisibleSegments{0, 1, 2});
  CHECK(s[4].start == 12 + 13);
  CHECK(s[4].sees == VisibleSegments{0, 1, 2, 3});
  CHECK(s[5].start == 12 + 13 + 3);
  CHECK(s[5].sees == VisibleSegments{0, 1, 2, 3, 4});
  CHECK(plan.plan.readouts[0].segment == 5);
}

TEST_CASE("candidates apart: each candidate has its own instruction and discriminant behind the user") {
  const FittedHistory history = fit_history(games(), history_of(3), 4);
  const std::vector<Item> items = candidates({4, 2});
  const BlockNames names(games(), context);
  const Candidate made = build("apart", history, items);
  CHECK(made.name == "apart");
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 4);  // system, user (U = 13), two candidates, each with what follows it
  CHECK(s[0].start == 0);
  CHECK(s[0].sees == VisibleSegments{});
  CHECK(s[1].kind == SegmentKind::user);
  CHECK(s[1].start == 8);
  CHECK(s[1].sees == VisibleSegments{0});
  CHECK(s[2].tokens == Tokens{100, 100, 100, 100, 7, 8, 9, 5});
  CHECK(s[3].tokens == Tokens{101, 101, 7, 8, 9, 5});
  for (const std::size_t candidate : {2, 3}) {
    CHECK(s[candidate].start == 8 + 13);
    CHECK(s[candidate].sees == VisibleSegments{0, 1});
    CHECK_FALSE(made.blocks[candidate].name.has_value());
  }
  CHECK(made.plan.readouts == std::vector<Readout>{{2, 7, {1'044}}, {3, 5, {1'045}}});
  // The blocks of system and user are those of the user prefix and of the plain prompt.
  CHECK(made.blocks[0].name == names.system());
  CHECK(made.blocks[1].name == names.user("t", history.tokens));
  CHECK(made.blocks[1].owner == owner_of_user("t", "ann"));
  for (const char* plan : {"user", "causal"})
    CHECK_MESSAGE(made.blocks[1].name == build(plan, history, items).blocks[1].name, plan);
  CHECK(validate(made.plan, limits) == "");
}

TEST_CASE("candidates apart: a candidate's segments are the same alone and among others, in any order") {
  const FittedHistory history = fit_history(games(), history_of(3), 4);
  const std::vector<Item> two = candidates({4, 2});
  const auto parts_of = [&](const std::vector<Item>& items, std::size_t index) {
    const Plan plan = build("apart", history, items).plan;
    Readout readout = plan.readouts.at(index);
    const auto segment = plan.segments.at(readout.segment);
    readout.segment = 0;
    return std::tuple(segment.tokens, segment.start, segment.sees, readout);
  };
  CHECK(parts_of({two[1], two[0]}, 0) == parts_of(two, 1));
  CHECK(parts_of({two[1]}, 0) == parts_of(two, 1));
}

Candidate search_behind(const Tokens& history, std::uint32_t part) {
  PromptForm form = games();
  form.discriminant = {};
  form.history_part = part;
  const BlockNames names(form, context);
  return search_plan({.form = form, .names = &names, .tenant = "t", .user = "ann", .history = history},
                     Search{.width = 8, .results = 8});
}

TEST_CASE("generator history: it has parts of equal length and a remainder, each after all before it") {
  const Tokens history = fit_history(games(), history_of(3), 4).tokens;  // 13 tokens
  const Candidate made = search_behind(history, 5);
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 5);  // system, parts of 5, 5 and 3, instruction
  Token next = 0;
  for (std::uint32_t part : {1, 2, 3}) {
    CHECK(s[part].kind == SegmentKind::user);
    CHECK(s[part].start == 8 + next);
    CHECK(s[part].tokens == history.part(static_cast<std::size_t>(next), part < 3 ? 5 : 3));
    CHECK(s[part].sees == VisibleSegments::all_before(part));
    CHECK(made.blocks[part].owner == owner_of_user("t", "ann"));
    next += static_cast<Token>(s[part].tokens.size());
  }
  CHECK(s[4].start == 8 + 13);
  CHECK(made.plan.search.segment == 4);
  CHECK(validate(made.plan, {.vocabulary = 17'903, .positions_max = 512, .width_max = 8}).empty());
  for (const std::uint32_t whole : {0u, 13u, 64u}) {
    const Candidate one = search_behind(history, whole);
    REQUIRE(one.plan.segments.size() == 3);
    CHECK(one.blocks[1].name == BlockNames(games(), context).user("t", history));
  }
  CHECK(search_behind({}, 5).plan.segments.size() == 2);
}

TEST_CASE("generator history: a grown history keeps its parts' names, an early change loses them") {
  const Tokens history = fit_history(games(), history_of(5), 4).tokens;  // 21 tokens
  const Candidate before = search_behind(history.part(0, 17), 5), after = search_behind(history, 5);
  for (std::size_t part : {1, 2, 3}) CHECK(before.blocks[part].name == after.blocks[part].name);
  CHECK(before.blocks[4].name != after.blocks[4].name);  // two tokens, then five
  std::vector<Token> other = history.copy();
  other[0] = 6;
  const Candidate changed = search_behind(other, 5);
  for (std::size_t part : {1, 2, 3, 4, 5}) CHECK(changed.blocks[part].name != after.blocks[part].name);
  // The same tokens at another position, and after a block that is all they see.
  const BlockNames names(games(), context);
  const BlockName first = *after.blocks[1].name;
  const Tokens same = history.part(5, 5);
  CHECK(names.user_after("t", first, same, 13) == after.blocks[2].name);
  CHECK(names.user_after("t", first, same, 14) != after.blocks[2].name);
  CHECK(names.user_after("u", first, same, 13) != after.blocks[2].name);
  CHECK(block_name(context, "tenant:t", {same.data(), same.size()}, 13, {&first, 1}) != after.blocks[2].name);
}

TEST_CASE("prefix plans: only what the prefix shares has a name, with its owner") {
  const FittedHistory history = fit_history(games(), history_of(2), 4);
  const auto items = candidates({4, 4});
  const BlockNames names(games(), context);
  const Candidate up = build("user", history, items);
  CHECK(up.blocks[0].name == names.system());
  CHECK(up.blocks[1].name == names.user("t", history.tokens));
  CHECK(up.blocks[1].owner == owner_of_user("t", "ann"));
  for (std::size_t i = 2; i < up.blocks.size(); ++i) CHECK_FALSE(up.blocks[i].name.has_value());

  const Candidate ip = build("item", history, items);
  CHECK(ip.blocks[0].name == names.system());
  CHECK(ip.blocks[1].name == items[0].block);
  CHECK(ip.blocks[1].owner == "item 0");
  for (std::size_t i = 3; i < ip.blocks.size(); ++i) CHECK_FALSE(ip.blocks[i].name.has_value());

  const std::vector<ItemView> seen = views(items);
  const Candidate none =
      user_plan({.form = games(), .tenant = "t", .user = "ann", .history = history.tokens, .items = seen});
  for (const SegmentBlock& block : none.blocks) CHECK_FALSE(block.name.has_value());
  CHECK(none.plan == up.plan);  // otherwise equal to the user plan
}

TEST_CASE("plain prompt: items come one after the other, and each sees everything before it") {
  const std::vector<Item> items = candidates({4, 2});
  const Candidate made = build("causal", fit_history(games(), history_of(1), 6), items);
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 6);  // system, user (U = 5), two items, instruction, discriminant
  CHECK(s[2].start == 13);
  CHECK(s[2].sees == VisibleSegments{0, 1});
  CHECK(s[3].start == 17);
  CHECK(s[3].sees == VisibleSegments{0, 1, 2});
  CHECK(s[4].start == 19);
  CHECK(made.blocks[1].name == BlockNames(games(), context).user("t", made.plan.segments[1].tokens));
  CHECK_FALSE(made.blocks[2].name.has_value());
  CHECK(validate(made.plan, limits) == "");
}

TEST_CASE("blocks plan: blocks are computed alone at the first position and fill spans of the plain prompt") {
  const std::vector<Item> items = candidates({4, 2});
  const BlockNames names(games(), context);
  const FittedHistory history = fit_history(games(), history_of(1), 6);
  const Candidate made = build("blocks", history, items, {.share = 0.5});
  // system; two blocks; user; two spans; instruction; discriminant
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 8);
  REQUIRE(made.plan.repair.reused_spans.size() == 2);
  for (const auto& [segment, place, item] : {std::tuple(1u, 13, 0u), {2u, 17, 1u}}) {
    CHECK(s[segment].start == 0);
    CHECK(s[segment].sees.empty());
    CHECK(made.blocks[segment].name == names.item_alone(items[item].tokens));
    CHECK(made.blocks[segment].owner == items[item].id);
    CHECK(made.plan.repair.reused_spans[item] == kernels::Repair::ReusedSpan{segment + 3, segment, 0});
    CHECK(s[segment + 3].start == place);
    CHECK(s[segment + 3].tokens == s[segment].tokens);
    CHECK_FALSE(made.blocks[segment + 3].name.has_value());
  }
  CHECK(s[3].sees == VisibleSegments{0});
  CHECK(made.blocks[3].name == names.user("t", history.tokens));
  CHECK(s[5].sees == VisibleSegments{0, 3, 4});
  CHECK(s[7].sees == VisibleSegments{0, 3, 4, 5, 6});
  CHECK(s[6].start == 19);
  CHECK(made.plan.repair.always == std::vector<std::uint32_t>{0, 1, 4});
  CHECK(made.plan.repair.budgets == std::vector<std::uint32_t>{0});
  CHECK(validate(made.plan, limits) == "");
  // Repaired in full, it equals the plain prompt.
  const Candidate full = build("blocks", history, items, {.share = 1});
  CHECK(full.plan == build("causal", history, items).plan);
}

TEST_CASE("repair: tokens are chosen by the named rule among all tokens of the spans") {
  using By = RepairChoice::By;
  const auto repair = [](By by, bool mean = false, std::uint32_t layers = 1) {
    const std::vector<Item> items = candidates({4, 3});
    const Candidate made = build("blocks", fit_history(games(), history_of(1), 6), items,
                                 {.share = 0.3, .by = by, .mean = mean, .exact_layers = layers});
    CHECK(validate(made.plan, limits) == "");
    return made.plan.repair;
  };
  CHECK(repair(By::attention).attention == 1);
  CHECK(repair(By::attention).divergence == 0);
  CHECK(repair(By::attention).attending == 0);
  CHECK(repair(By::attention).budgets == std::vector<std::uint32_t>{2});
  CHECK(repair(By::tail).attending == 6);
  CHECK(repair(By::deviation).attention == 0);
  CHECK(repair(By::deviation).divergence == 1);
  CHECK(repair(By::importance).attention == 1);
  CHECK(repair(By::importance).divergence == 1);
  CHECK(repair(By::tail, true, 2).mean);
  CHECK(repair(By::tail, true, 2).exact_layers == 2);
  CHECK(repair(By::first).always == std::vector<std::uint32_t>{0, 4});
}

// Form of tiny-ranker-titles: an instruction, <h> before each event, <c> before each candidate and
// <score> after it.
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

// Returns the repair for two events of four tokens, and items of six and three.
kernels::Repair repair_of(const RepairChoice& choice, std::size_t left_max = SIZE_MAX) {
  Plan plan;
  for (const std::size_t tokens : {4, 4, 6, 3})
    plan.segments.push_back(
        {tokens == 4 ? SegmentKind::user : SegmentKind::item, std::vector<Token>(tokens, 7), 0, {}});
  for (std::uint32_t i = 0; i < 4; ++i) {
    plan.repair.reused_spans.push_back({4 + i, i, 0});
    plan.segments.push_back(plan.segments[i]);
  }
  write_repair(plan, choice, left_max);
  CHECK(validate(plan, limits) == "");
  return plan.repair;
}

TEST_CASE("repair: history and items have separate budgets if the choice says so") {
  constexpr auto by = RepairChoice::By::attention;
  using Numbers = std::vector<std::uint32_t>;
  CHECK(repair_of({.share = 0.5, .by = by}).budgets == Numbers{9});
  const kernels::Repair apart = repair_of({.share = 1.0 / 3, .by = by, .history = 0.25});
  CHECK(apart.budgets == Numbers{2, 3});
  for (std::size_t i = 0; i < 4; ++i) CHECK(apart.reused_spans[i].budget == (i < 2 ? 0 : 1));
  CHECK(repair_of({.share = 0.5, .by = by, .history = 0}).budgets == Numbers{0, 5});
  CHECK(repair_of({.share = 0, .by = by, .history = 1}).budgets == Numbers{8, 0});
  CHECK(repair_of({.share = 0.5, .history = 0.25}).always == Numbers{0, 4, 8, 9, 10, 14, 15});
}

TEST_CASE("repair: the window is computed beside the chosen tokens, and left_max is kept") {
  constexpr auto by = RepairChoice::By::attention;
  using Numbers = std::vector<std::uint32_t>;
  const kernels::Repair end = repair_of({.share = 0.5, .by = by, .window = 3});
  CHECK(end.always == Numbers{14, 15, 16});
  CHECK(end.budgets == Numbers{9});
  CHECK(repair_of({.share = 1, .by = by, .window = 3}).budgets == Numbers{14});
  CHECK(repair_of({.share = 0.5, .by = by, .window = 100}).budgets == Numbers{0});
  CHECK(repair_of({.share = 0, .by = by, .history = 0.5, .window = 10}).budgets == Numbers{4, 0});
  CHECK(repair_of({.share = 0.5, .window = 1}).always == Numbers{0, 1, 4, 5, 8, 9, 10, 14, 15, 16});
  // If fewer tokens may be left, the first budget grows first.
  CHECK(repair_of({.share = 0.5, .by = by}, 3).budgets == Numbers{14});
  CHECK(repair_of({.share = 1.0 / 3, .by = by, .history = 0.25, .window = 1}, 4).budgets == Numbers{8, 4});
  CHECK(repair_of({.share = 0, .by = by, .history = 0}, 0).budgets == Numbers{8, 9});
  CHECK(repair_of({.share = 0}, 0).always.size() == 17);
  for (std::size_t left = 0; left < 18; ++left)
    for (const std::uint32_t window : {0, 2, 5})
      for (const auto selection : {RepairChoice::By::first, by}) {
        const kernels::Repair repair =
            repair_of({.share = 0.2, .by = selection, .history = 0.4, .window = window}, left);
        std::size_t computed = repair.always.size();
        for (const std::uint32_t budget : repair.budgets) computed += budget;
        CHECK(17 - computed <= left);
      }
}

TEST_CASE("repair: a part that is computed in full has no block: history, items, or both") {
  const std::vector<Item> items = candidates({6, 2});
  const FittedHistory history = fit_history(games(), history_of(2), 8);
  const auto reused_spans = [&](double share, double of_history) {
    return build("all_blocks", history, items,
                 {.share = share, .by = RepairChoice::By::tail, .history = of_history})
        .plan.repair.reused_spans.size();
  };
  CHECK(reused_spans(0.5, 0.5) == 4);
  CHECK(reused_spans(0.5, 1) == 2);
  CHECK(reused_spans(1, 0.5) == 2);
  CHECK(reused_spans(1, 1) == 0);
  const Plan full = build("all_blocks", history, items, {.share = 1, .history = 1}).plan;
  CHECK(full.segments == build("causal", history, items).plan.segments);
}

// Prototypes for even tokens that end before a position.
class EvenTokens final : public PrototypeSet {
 public:
  explicit EvenTokens(std::string model) : model_(std::move(model)) {}
  bool has_prototype(Token token, std::uint32_t position) const override {
    return token % 2 == 0 && position < 15;
  }
  const std::string& checksum() const override { return checksum_; }
  const std::string& model_version() const override { return model_; }

 private:
  const std::string checksum_ = "even", model_;
};

TEST_CASE("prototypes: history blocks are runs of replaced tokens, and the other tokens are computed") {
  const std::vector<Item> items = candidates({2});
  PromptForm form = games();
  form.prototype_set = std::make_shared<EvenTokens>(context.model_version);
  Profile profile{1, {20, 22, 23, 25, 26, 28, 30, 32}, {4, 4}};
  const FittedHistory history = fit_history(form, profile, 2);  // after a token of the form, at position 8
  const RepairChoice choice{.share = 0.5, .by = RepairChoice::By::tail, .prototypes = true};
  const Candidate made = build("all_blocks", history, items, choice, form);
  kernels::PlanLimits here = limits;
  CHECK(validate(made.plan, here).find("repair.prototypes is even; expected none") == 0);
  here.prototypes = "even";
  CHECK(validate(made.plan, here) == "");
  struct ReusedSpan {
    std::int32_t start;
    std::size_t tokens;
    bool of_prototypes;
    bool operator==(const ReusedSpan&) const = default;
  };
  std::vector<ReusedSpan> reused_spans;
  for (const kernels::Repair::ReusedSpan& place : made.plan.repair.reused_spans) {
    const auto& segment = made.plan.segments[place.segment];
    reused_spans.push_back({segment.start, segment.tokens.size(), place.of_prototypes});
    CHECK(made.blocks[place.block].name.has_value() == !place.of_prototypes);
  }
  const std::size_t form_tokens = form.user[0] % 2 == 0;  // the form's own token follows the rule too
  CHECK(reused_spans.size() == 3 + form_tokens);
  CHECK(reused_spans[form_tokens] == ReusedSpan{9, 2, true});
  CHECK(reused_spans[form_tokens + 1] == ReusedSpan{13, 2, true});
  CHECK(reused_spans.back() == ReusedSpan{17, 2, false});
  CHECK(prompt_tokens(made.plan) == prompt_tokens(build("causal", history, items).plan));

  RepairChoice unsaid = choice;
  unsaid.prototypes = false;
  const Candidate same = build("prototypes", history, items, unsaid, form);
  CHECK(same.name == "prototypes");
  CHECK(same.plan == made.plan);
  CHECK(build("all_blocks", history, items, unsaid, form).plan.repair.prototypes == "");

  form.prototype_set = std::make_shared<EvenTokens>("another version");
  const Plan none = build("all_blocks", history, items, choice, form).plan;
  CHECK(none.repair.reused_spans.size() == 1);
  CHECK(none.repair.prototypes == "");
}

TEST_CASE("title form: scores follow each candidate, and blocks see the system prompt") {
  const std::vector<Item> items = candidates({2, 3});
  const BlockNames names(titles(), context);
  const FittedHistory history = fit_history(titles(), history_of(2), 9);
  CHECK(history.tokens == Tokens{4, 20, 21, 22, 23, 4, 24, 25, 26, 27});
  CHECK(history.events == std::vector<std::uint32_t>{5, 5});
  const Candidate made =
      build("all_blocks", history, items, {.share = 0.3, .by = RepairChoice::By::attention}, titles());
  // system; two events, two candidates; their spans, a score after each candidate
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 11);
  CHECK(s[1].tokens == Tokens{4, 20, 21, 22, 23});
  CHECK(made.blocks[1].name == names.user("t", s[1].tokens));
  CHECK(s[3].tokens == Tokens{5, 100, 100});
  CHECK(made.blocks[3].name == names.item(std::vector<Token>{5, 100, 100}));
  for (std::size_t block = 1; block < 5; ++block) {
    CHECK(s[block].start == 8);
    CHECK(s[block].sees == VisibleSegments{0});
  }
  CHECK(s[5].start == 8);
  CHECK(s[6].start == 13);
  CHECK(s[7].start == 18);
  CHECK(s[8].tokens == Tokens{6});
  CHECK(s[8].start == 21);
  CHECK(s[10].start == 26);
  CHECK(s[10].sees == VisibleSegments{0, 5, 6, 7, 8, 9});
  CHECK(made.plan.readouts == std::vector<Readout>{{8, 0, {7, 8}}, {10, 0, {7, 8}}});
  CHECK(made.plan.repair.budgets == std::vector<std::uint32_t>{5});  // of 17
  CHECK(validate(made.plan, limits) == "");
  const Candidate plain = build("causal", history, items, {}, titles());
  REQUIRE(plain.plan.segments.size() == 6);  // system, history; two candidates, a score after each
  CHECK(plain.plan.readouts == std::vector<Readout>{{3, 0, {7, 8}}, {5, 0, {7, 8}}});
  CHECK(plain.plan.segments[2].start == 18);
  CHECK(plain.plan.segments[3].tokens == Tokens{6});
  CHECK(plain.plan.segments[3].start == 21);
  CHECK(plain.plan.segments[5].start == 26);
  const Candidate some = build("blocks", history, items, {}, titles());
  CHECK(some.plan.repair.reused_spans.size() == 2);
  CHECK(some.plan.segments[3].kind == SegmentKind::user);
  CHECK(validate(some.plan, limits) == "");
}

TEST_CASE(
    "title form: under candidates apart each candidate begins behind the history and ends in its score") {
  const std::vector<Item> items = candidates({2, 3});
  const BlockNames names(titles(), context);
  const FittedHistory history = fit_history(titles(), history_of(2), 6);
  const Candidate made = build("apart", history, items, {}, titles());
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 4);  // system, history (10 tokens), two candidates with their scores
  CHECK(s[1].tokens == history.tokens);
  CHECK(s[1].start == 8);
  CHECK(s[2].tokens == Tokens{5, 100, 100, 6});
  CHECK(s[3].tokens == Tokens{5, 101, 101, 101, 6});
  for (const std::size_t candidate : {2, 3}) {
    CHECK(s[candidate].start == 18);
    CHECK(s[candidate].sees == VisibleSegments{0, 1});
    CHECK_FALSE(made.blocks[candidate].name.has_value());
  }
  CHECK(made.plan.readouts == std::vector<Readout>{{2, 3, {7, 8}}, {3, 4, {7, 8}}});
  CHECK(made.blocks[0].name == names.system());
  CHECK(made.blocks[1].name == names.user("t", history.tokens));
  CHECK(made.blocks[1].name == build("causal", history, items, {}, titles()).blocks[1].name);
  CHECK(validate(made.plan, limits) == "");
  // One candidate alone is the plain prompt, position by position.
  const Candidate alone = build("apart", history, {items[0]}, {}, titles());
  const auto& plain = build("causal", history, {items[0]}, {}, titles()).plan.segments;
  CHECK(plain[2].start == alone.plan.segments[2].start);
  CHECK(plain[3].start == 18 + 3);
  CHECK(item_positions(*find_plan("apart"), titles(), views(items)) == 1 + 3 + 1);
}

TEST_CASE("history: a long one keeps its newest events and reports how many were cut") {
  PromptForm form = games();
  form.positions_max = 8 + 1 + 4 + 3 + 1 + 10;  // space for ten history tokens: two events of four
  const FittedHistory fitted = fit_history(form, history_of(5), 4);
  CHECK(fitted.cut == 3);
  CHECK(fitted.tokens == std::vector<Token>{4, 32, 33, 34, 35, 36, 37, 38, 39});
  const std::vector<Item> items = candidates({4});
  const Candidate plan = build("item", fitted, items, {}, form);
  const auto& last = plan.plan.segments.back();
  CHECK(last.start + last.tokens.size() <= form.positions_max);
}

TEST_CASE("history: one that does not fit at all leaves only the prompt's own tokens") {
  PromptForm form = games();
  form.positions_max = 5;
  const FittedHistory fitted = fit_history(form, history_of(2), 4);
  CHECK(fitted.cut == 2);
  CHECK(fitted.tokens == form.user);
}

TEST_CASE("history: without a system prompt and without events no segment is empty") {
  PromptForm form = games();
  form.system = form.user = {};
  const auto history = fit_history(form, {}, 4);
  const std::vector<Item> items = candidates({4});
  const Candidate plan = build("item", history, items, {}, form);
  REQUIRE(plan.plan.segments.size() == 3);
  CHECK(plan.plan.segments[0].start == 0);
  CHECK(plan.plan.segments[0].sees == VisibleSegments{});
  CHECK(plan.plan.segments[1].start == 4);
  CHECK(plan.plan.segments[2].start == 7);
  CHECK(plan.plan.readouts[0].segment == 2);
}

// Compares the segments of the model's own reference for one request with ours from the same
// features.
void check_golden(const nlohmann::json& request, const char* plan, const char* name) {
  Profile profile;
  std::vector<Item> items;
  const nlohmann::json& expected = request["plans"][plan]["segments"];
  for (const auto& segment : expected) {
    const auto tokens = segment["tokens"].get<std::vector<Token>>();
    if (segment["kind"] == "user") {
      profile.tokens.assign(tokens.begin() + 1, tokens.end());
      profile.events.assign(profile.tokens.size() / 4, 4);
    }
    if (segment["kind"] == "item") {
      const Token candidate = request["candidates"][items.size()].get<Token>();
      items.push_back({std::to_string(candidate), "", tokens, 1'044 + candidate, {}});
    }
  }
  const FittedHistory history = fit_history(games(), profile, 4);
  const Candidate ours = build(name, history, items);
  REQUIRE(ours.plan.segments.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(ours.plan.segments[i].tokens == expected[i]["tokens"].get<std::vector<Token>>());
    CHECK(ours.plan.segments[i].start == expected[i]["start"].get<std::int32_t>());
    CHECK(ours.plan.segments[i].sees ==
          VisibleSegments(expected[i]["sees"].get<std::vector<std::uint32_t>>()));
  }
  CHECK(ours.plan.readouts[0].rows.size() == request["plans"][plan]["logits"].size());
}

TEST_CASE("plans: the golden requests of the shipped ranker are rebuilt token by token") {
  std::ifstream file(std::string(TROUPE_ROOT_DIR) + "/../shared/models/tiny-ranker-games/golden.json");
  if (!file) {
    MESSAGE("skipped: ../shared/models/tiny-ranker-games/golden.json is not there");
    return;
  }
  const nlohmann::json golden = nlohmann::json::parse(file);
  for (const auto& request : golden["requests"]) {
    CAPTURE(request["user_id"].get<int>());
    check_golden(request, "up", "user");
    check_golden(request, "ip", "item");
  }
}

}  // namespace
}  // namespace troupe::router
