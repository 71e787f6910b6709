#include "sim/cluster/oracle.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string_view>

#include "router/request/ranking.h"
#include "router/request/request.h"
#include "runtime/testing/catalog_test.h"
#include "sim/testing/evaluate.h"
#include "sim/world/sim_prototypes.h"
#include "sim/world/toy_search.h"

using namespace troupe;
using namespace troupe::sim;

namespace oracle_test {

const PromptForm form{{1, 2}, {3}, {4, 5}, {6}, 60, 5'000};

struct Exchange {
  RankRequest request;
  RankReply reply;
};

// Answer of a correct cluster.
Exchange answered(const WorldData& world, std::string_view plan, std::string_view user = "u1") {
  Exchange asked{{.id = 1, .tenant = "", .user = std::string(user), .candidates = {"i3", "i5", "i7", "i9"}},
                 {}};
  asked.request.top_k = 3;
  const auto profile = world.profile("", user);
  std::vector<Item> items;
  for (const std::string& id : asked.request.candidates) items.push_back(*world.item(id, "c2"));
  const std::vector<ItemView> seen = views(items);
  const auto history = router::fit_history(form, *profile, router::item_tokens_max(seen));
  const Plan made =
      router::find_plan(plan)->build({.form = form, .history = history.tokens, .items = seen}).plan;
  RankReply& reply = asked.reply;
  reply.user = user;
  reply.items = router::rank_items(seen, evaluate("m1", made)[0].scores, 3);
  reply.plan = plan;
  reply.arrangement = router::find_plan(plan)->arrangement;
  reply.tokens_total = static_cast<std::uint32_t>(token_count(made));
  reply.tokens_computed = reply.tokens_total - 2;
  reply.tokens_reused = 2;
  reply.history_cut = history.cut;
  reply.model_version = "m1", reply.catalog_version = "c2", reply.profile_version = profile->version;
  return asked;
}

WorldOptions options() { return {.items = 100, .users = 10, .absent = 0, .changed = 0.9}; }

// Answer of a correct cluster to a request for blocks.
Exchange answered_with_blocks(const WorldData& world, const std::string& policy, double approximate,
                              std::string_view user, std::string_view plan = "blocks", double usual = 1,
                              const PromptForm& form = oracle_test::form,
                              const std::vector<std::uint8_t>& in_place = {}) {
  Exchange asked{{.id = 1, .tenant = "", .user = std::string(user), .candidates = {"i3", "i5", "i7", "i9"}},
                 {}};
  asked.request.policy = policy;
  asked.request.approximate = approximate;
  const auto profile = world.profile("", user);
  std::vector<Item> items;
  for (const std::string& id : asked.request.candidates) items.push_back(*world.item(id, "c2"));
  const std::vector<ItemView> seen = views(items);
  const router::PlanKind& kind = *router::find_plan(plan);
  const auto history = router::fit_history(form, *profile, item_positions(kind, form, seen));
  const router::Candidate candidate = kind.build({.form = form,
                                                  .history = history.tokens,
                                                  .events = history.events,
                                                  .items = seen,
                                                  .repair = router::policy(policy).repair_of(kind),
                                                  .approximate_max = approximate < 0 ? usual : approximate,
                                                  .in_place = in_place});
  const Plan& made = candidate.plan;
  RankReply& reply = asked.reply;
  for (const std::uint32_t item : candidate.in_place) reply.in_place.push_back(items[item].id);
  reply.user = user;
  reply.items = router::rank_items(seen, evaluate("m1", made)[0].scores, 0);
  reply.plan = plan;
  reply.arrangement = router::find_plan(plan)->arrangement;
  reply.policy = policy;
  reply.approximate = router::approximate_share(candidate);
  reply.tokens_total = static_cast<std::uint32_t>(router::prompt_tokens(made));
  reply.tokens_computed = reply.tokens_total;
  reply.history_cut = history.cut;
  reply.model_version = "m1", reply.catalog_version = "c2", reply.profile_version = profile->version;
  return asked;
}

TEST_CASE("oracle: an approximate plan has one correct answer, and any other approximation is reported") {
  const WorldData world(options());
  const Oracle oracle(world, form);
  for (const char* policy : {"blocks+30:tail:mean:layer2", "blocks+10:importance", "blocks+50:attention",
                             "blocks+20:deviation:mean", "blocks", "blocks+30", "blocks+25:mean:window4"})
    for (const double approximate : {-1.0, 0.0, 0.25, 1.0})
      for (std::uint64_t user = 0; user < 4; ++user) {
        CAPTURE(policy);
        CAPTURE(approximate);
        const Exchange asked = answered_with_blocks(world, policy, approximate, WorldData::user_id(user));
        CHECK(oracle.validate(asked.request, asked.reply) == "");
        if (approximate >= 0) CHECK(asked.reply.approximate <= approximate);
      }
  const Exchange right = answered_with_blocks(world, "blocks+30:tail", -1, "u1");
  CHECK(right.reply.approximate > 0);
  Exchange wrong = answered_with_blocks(world, "blocks+40:tail", -1, "u1");
  CHECK(oracle.validate(right.request, wrong.reply).find("policy is ") == 0);
  wrong.reply.policy = right.reply.policy;
  CHECK(oracle.validate(right.request, wrong.reply).find("approximate is ") == 0);
  wrong = answered_with_blocks(world, "blocks+30:tail:mean", -1, "u1");
  wrong.reply.policy = right.reply.policy;
  CHECK(oracle.validate(right.request, wrong.reply).find("items[0]") == 0);
}

TEST_CASE(
    "oracle: a repaired item-first plan has one correct answer, and says how much of it is computed again") {
  const WorldData world(options());
  const Oracle oracle(world, form);
  std::size_t exact = 0, repaired = 0;
  for (const char* policy : {"item+25", "item+50:tail", "item+30:attention:window3",
                             "item+40:importance:mean", "item+20:deviation:layer2", "item+100",
                             "item+100:tail", "item+0:window5", "item+0:tail:mean", "bat+30:tail"})
    for (const double approximate : {-1.0, 0.0, 0.1, 0.25, 1.0})
      for (std::uint64_t user = 0; user < 6; ++user) {
        CAPTURE(policy);
        CAPTURE(approximate);
        const Exchange asked =
            answered_with_blocks(world, policy, approximate, WorldData::user_id(user), "item");
        CHECK(oracle.validate(asked.request, asked.reply) == "");
        CHECK(asked.reply.arrangement == Arrangement::item_first);
        if (approximate >= 0) CHECK(asked.reply.approximate <= approximate);
        ++(asked.reply.approximate > 0 ? repaired : exact);
      }
  CHECK(exact > 0);
  CHECK(repaired > 0);
  const Exchange right = answered_with_blocks(world, "item+50:tail", -1, "u1", "item");
  CHECK(right.reply.approximate > 0);
  Exchange wrong = answered_with_blocks(world, "item+50:tail", 0, "u1", "item");
  CHECK(oracle.validate(right.request, wrong.reply).find("approximate is ") == 0);
  wrong.reply.approximate = right.reply.approximate;
  CHECK(oracle.validate(right.request, wrong.reply).find("items[0]") == 0);
}

TEST_CASE(
    "oracle: histories with blocks, separate budgets, windows and planner limits have one correct answer") {
  const WorldData world(options());
  const Oracle oracle(world, form), generous(world, form, toy_decoder(), 0.4);
  for (const char* policy :
       {"all_blocks+30:tail:mean:history20:window6", "all_blocks+0:importance:history100",
        "all_blocks+100:attention:history40", "all_blocks+20:deviation:window40",
        "all_blocks+30:attention:history20:history-importance:lambda0.5",
        "all_blocks+30:tail:history40:history-deviation", "all_blocks+30:importance:lambda2", "planner",
        "planner+10:attention:window8", "all_blocks", "all_blocks+30", "all_blocks+10:history60:window6"})
    for (const char* plan : {"blocks", "all_blocks"})
      for (const double approximate : {-1.0, 0.0, 0.25, 1.0})
        for (std::uint64_t user = 0; user < 6; ++user) {
          CAPTURE(policy);
          CAPTURE(plan);
          CAPTURE(approximate);
          const bool plans = router::policy(policy)->weighs;
          const Exchange asked =
              answered_with_blocks(world, policy, approximate, WorldData::user_id(user), plan, plans ? 0 : 1);
          CHECK(oracle.validate(asked.request, asked.reply) == "");
          if (!plans) continue;
          const Exchange more =
              answered_with_blocks(world, policy, approximate, WorldData::user_id(user), plan, 0.4);
          CHECK(generous.validate(more.request, more.reply) == "");
        }
  const Exchange unasked = answered_with_blocks(world, "planner", -1, "u1", "blocks", 0.4);
  CHECK(unasked.reply.approximate > 0);
  CHECK(oracle.validate(unasked.request, unasked.reply).find("approximate is ") == 0);
}

TEST_CASE(
    "oracle: histories made of prototypes have one correct answer, with and without prototypes of the "
    "model") {
  const WorldData world(options());
  PromptForm with = form;
  with.prototype_set = std::make_shared<const SimPrototypes>(5, "m1");
  const Oracle oracle(world, with), without(world, form);
  std::size_t made = 0;
  for (const char* policy :
       {"all_blocks+30:attention:history20:prototypes", "all_blocks+0:importance:prototypes",
        "all_blocks+20:tail:mean:window9:prototypes"})
    for (const double approximate : {-1.0, 0.0, 0.25, 1.0})
      for (std::uint64_t user = 0; user < 6; ++user) {
        CAPTURE(policy);
        CAPTURE(approximate);
        Exchange asked =
            answered_with_blocks(world, policy, approximate, WorldData::user_id(user), "all_blocks", 1, with);
        CHECK(oracle.validate(asked.request, asked.reply) == "");
        asked.reply.model_version = "m2";  // has no prototypes
        if (asked.reply.approximate > 0) CHECK(oracle.validate(asked.request, asked.reply) != "");
        made += asked.reply.approximate > 0;
      }
  CHECK(made > 0);

  // The planner's plan of prototypes has them, whatever its repair says.
  for (const char* policy : {"planner", "planner+10:attention:window8"})
    for (std::uint64_t user = 0; user < 6; ++user) {
      CAPTURE(policy);
      Exchange asked =
          answered_with_blocks(world, policy, 1, WorldData::user_id(user), "prototypes", 1, with);
      CHECK(oracle.validate(asked.request, asked.reply) == "");
      CHECK(without.validate(asked.request, asked.reply).find("plan is ") == 0);
      asked.reply.plan = "all_blocks";
      if (asked.reply.approximate > 0) CHECK(oracle.validate(asked.request, asked.reply) != "");
    }
}

TEST_CASE("oracle: items in their place have one correct answer, and other claims are reported") {
  const WorldData world(options());
  PromptForm with = form;
  with.prototype_set = std::make_shared<const SimPrototypes>(5, "m1");
  const Oracle oracle(world, with);
  std::map<std::string_view, std::size_t> placed;  // answers with items in their place, by plan
  for (const char* policy :
       {"blocks+30:tail:mean", "blocks+10:importance", "all_blocks+30:tail:history20:window6",
        "all_blocks+0:importance:history100", "planner"})
    for (const char* plan : {"blocks", "all_blocks", "prototypes"})
      for (const double approximate : {-1.0, 0.0, 0.25, 1.0})
        for (const std::vector<std::uint8_t>& in_place :
             {std::vector<std::uint8_t>{1, 0, 0, 0}, {0, 1, 1, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}}) {
          CAPTURE(policy);
          CAPTURE(plan);
          CAPTURE(approximate);
          const bool plans = router::policy(policy)->weighs;
          Exchange asked =
              answered_with_blocks(world, policy, approximate, "u1", plan, plans ? 0 : 1, with, in_place);
          CHECK(oracle.validate(asked.request, asked.reply) == "");
          if (asked.reply.in_place.empty()) continue;
          ++placed[plan];
          asked.reply.in_place.pop_back();
          CHECK(oracle.validate(asked.request, asked.reply) != "");
        }
  CHECK(placed.size() == 3);
  Exchange right = answered_with_blocks(world, "blocks+30:tail", -1, "u1");
  right.reply.in_place = {"i1"};
  CHECK(oracle.validate(right.request, right.reply).find("in_place is i1") == 0);
  right = answered(world, "item");
  right.reply.in_place = {"i3"};
  CHECK(oracle.validate(right.request, right.reply).find("in_place is not empty") == 0);
}

TEST_CASE("oracle: the correct answer is accepted for both plans and all profiles") {
  const WorldData world(options());
  const Oracle oracle(world, form);
  std::uint32_t cut = 0;
  for (const char* plan : {"user", "item"})
    for (std::uint64_t user = 0; user < 10; ++user) {
      const Exchange asked = answered(world, plan, WorldData::user_id(user));
      CHECK(oracle.validate(asked.request, asked.reply) == "");
      cut += asked.reply.history_cut;
    }
  CHECK(cut > 0);
}

// Form of a ranker that reads each score behind the candidate, at the last of two tokens.
PromptForm form_behind_each() {
  PromptForm behind_each;
  behind_each.system = {1, 2};
  behind_each.event = {3};
  behind_each.item = {4};
  behind_each.score = {5, 6};
  behind_each.yes = 7;
  behind_each.no = 8;
  behind_each.blocks_see_system = true;
  behind_each.positions_max = 90;
  behind_each.vocabulary = 5'000;
  behind_each.arrangements = {Arrangement::candidates_apart, Arrangement::causal};
  return behind_each;
}

// Answer of a correct cluster to a ranker of that form.
Exchange answered_behind_each(const WorldData& world, const std::string& policy, std::string_view plan,
                              std::string_view user, const PromptForm& form = form_behind_each()) {
  Exchange asked{{.id = 1, .tenant = "", .user = std::string(user), .candidates = {"i3", "i5", "i7", "i9"}},
                 {}};
  asked.request.policy = policy;
  const auto profile = world.profile("", user);
  std::vector<Item> items;
  for (const std::string& id : asked.request.candidates) items.push_back(*world.item(id, "c2"));
  const std::vector<ItemView> seen = views(items);
  const router::PlanKind& kind = *router::find_plan(plan);
  const auto history = router::fit_history(form, *profile, item_positions(kind, form, seen));
  const router::Candidate built = kind.build({.form = form,
                                              .history = history.tokens,
                                              .events = history.events,
                                              .items = seen,
                                              .repair = router::policy(policy).repair_of(kind)});
  const Plan& made = built.plan;
  std::vector<double> scores;
  for (const ScoreRow& row : evaluate("m1", made)) scores.push_back(row.scores.at(0) - row.scores.at(1));
  RankReply& reply = asked.reply;
  reply.user = user, reply.policy = policy, reply.plan = plan;
  reply.items = router::rank_items(seen, scores, 0);
  reply.arrangement = kind.arrangement;
  reply.approximate = router::approximate_share(built);
  reply.tokens_total = reply.tokens_computed = static_cast<std::uint32_t>(router::prompt_tokens(made));
  reply.history_cut = history.cut;
  reply.model_version = "m1", reply.catalog_version = "c2", reply.profile_version = profile->version;
  return asked;
}

TEST_CASE("oracle: scores behind each candidate have one correct answer under each plan of such a form") {
  const WorldData world(options());
  const Oracle oracle(world, form_behind_each());
  std::uint32_t cut = 0;
  for (const auto& [policy, plan] : {std::pair{"causal", "causal"},
                                     {"planner", "apart"},
                                     {"user", "user"},
                                     {"item", "item"},
                                     {"bat", "item"},
                                     {"item+30:tail", "item"},
                                     {"item+50:attention:mean", "item"},
                                     {"bat+100", "item"},
                                     {"blocks+30:tail:mean:layer2", "blocks"},
                                     {"blocks+50:attention", "blocks"},
                                     {"blocks+30", "blocks"},
                                     {"all_blocks+20:history50", "all_blocks"},
                                     {"all_blocks+20:deviation:window9", "all_blocks"},
                                     {"all_blocks+0:importance:history100", "all_blocks"},
                                     {"all_blocks+30:tail:mean:history20:window6", "all_blocks"}})
    for (std::uint64_t user = 0; user < 10; ++user) {
      CAPTURE(policy);
      CAPTURE(plan);
      Exchange asked = answered_behind_each(world, policy, plan, WorldData::user_id(user));
      CHECK(oracle.validate(asked.request, asked.reply) == "");
      cut += asked.reply.history_cut;
      asked.reply.items[0].score += 1e-9;
      CHECK(oracle.validate(asked.request, asked.reply).find("items[0].score") == 0);
    }
  CHECK(cut > 0);
  const Exchange causal = answered_behind_each(world, "causal", "causal", "u1"),
                 apart = answered_behind_each(world, "planner", "apart", "u1");
  RankReply mixed = causal.reply;
  mixed.items = apart.reply.items;
  CHECK(oracle.validate(causal.request, mixed).find("items[0]") == 0);
  const Exchange user = answered_behind_each(world, "user", "user", "u1"),
                 item = answered_behind_each(world, "item", "item", "u1");
  CHECK(user.reply.items == apart.reply.items);  // the same prompt
  CHECK_FALSE(user.reply.items == item.reply.items);
  mixed = item.reply;
  mixed.items = user.reply.items;
  CHECK(oracle.validate(item.request, mixed).find("items[0]") == 0);
}

TEST_CASE("oracle: the history has at most the form's number of events") {
  const WorldData world(options());
  PromptForm form = form_behind_each();
  form.positions_max = 4'000;
  form.events_max = 3;
  const Oracle oracle(world, form);
  form.events_max = 0;
  const Oracle unlimited(world, form);
  std::uint32_t cut = 0;
  for (const auto& [policy, plan] : {std::pair{"causal", "causal"}, {"planner", "apart"}})
    for (std::uint64_t user = 0; user < 10; ++user) {
      form.events_max = 3;
      const Exchange asked = answered_behind_each(world, policy, plan, WorldData::user_id(user), form);
      CHECK(oracle.validate(asked.request, asked.reply) == "");
      if (asked.reply.history_cut > 0) CHECK(unlimited.validate(asked.request, asked.reply) != "");
      cut += asked.reply.history_cut;
    }
  CHECK(cut > 0);
}

TEST_CASE("oracle: every single wrong field of a ranking is reported") {
  WorldData world(options());
  world.write({PutUser{.tenant = "", .user = "u1", .history = {"i1", "i2"}}});
  const Oracle oracle(world, form);
  const Exchange asked = answered(world, "item");
  CHECK(oracle.validate(asked.request, asked.reply) == "");
  const auto found = [&](auto lie) {
    RankReply reply = asked.reply;
    lie(reply);
    return !oracle.validate(asked.request, reply).empty();
  };
  CHECK(found([](RankReply& reply) { reply.user = "u2"; }));
  CHECK(found([](RankReply& reply) { reply.plan = "user"; }));
  CHECK(found([](RankReply& reply) { reply.plan = ""; }));
  CHECK(found([](RankReply& reply) { reply.model_version = "m2"; }));
  CHECK(found([](RankReply& reply) { reply.catalog_version = "c1"; }));
  CHECK(found([](RankReply& reply) { reply.catalog_version = "c9"; }));
  CHECK(found([](RankReply& reply) { reply.profile_version = 1; }));
  CHECK(found([](RankReply& reply) { reply.profile_version = 3; }));
  CHECK(found([](RankReply& reply) { ++reply.history_cut; }));
  CHECK(found([](RankReply& reply) { ++reply.tokens_total; }));
  CHECK(found([](RankReply& reply) { ++reply.tokens_computed; }));
  CHECK(found([](RankReply& reply) { reply.items.pop_back(); }));
  CHECK(found([](RankReply& reply) { std::swap(reply.items[0], reply.items[1]); }));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found([i](RankReply& reply) { reply.items[i].id = "i8"; }));
    CHECK(found([i](RankReply& reply) { reply.items[i].title = "?"; }));
    CHECK(found([i](RankReply& reply) { reply.items[i].score *= 1 + 1e-15; }));
    CHECK(found([i](RankReply& reply) { reply.items[i].probability *= 1 - 1e-15; }));
  }
}

TEST_CASE("oracle: an answer of a wrong plan is reported, whichever segment is wrong") {
  const WorldData world(options());
  const Oracle oracle(world, form);
  const auto profile = world.profile("", "u1");
  std::vector<Item> items;
  for (const char* id : {"i3", "i5", "i7", "i9"}) items.push_back(*world.item(id, "c2"));
  const std::vector<ItemView> seen = views(items);
  const auto history = router::fit_history(form, *profile, router::item_tokens_max(seen));
  for (const char* name : {"user", "item"}) {
    const Exchange asked = answered(world, name);
    const Plan plan =
        router::find_plan(name)->build({.form = form, .history = history.tokens, .items = seen}).plan;
    const auto found = [&](std::size_t segment, auto lie) {
      Plan wrong = plan;
      lie(wrong.segments[segment]);
      RankReply reply = asked.reply;
      reply.items = router::rank_items(seen, evaluate("m1", wrong)[0].scores, 3);
      return !oracle.validate(asked.request, reply).empty();
    };
    for (std::size_t i = 0; i < plan.segments.size(); ++i) {
      CAPTURE(i);
      CHECK(found(i, [](Segment& segment) { ++segment.start; }));
      CHECK(found(i, [](Segment& segment) {
        std::vector<Token> tokens = segment.tokens.copy();
        ++tokens.back();
        segment.tokens = std::move(tokens);
      }));
      if (i > 0)
        CHECK(found(i, [](Segment& segment) {
          std::vector<std::uint32_t> sees(segment.sees.begin(), segment.sees.end());
          sees.pop_back();
          segment.sees = VisibleSegments(sees);
        }));
    }
  }
}

TEST_CASE("oracle: an answer may match any catalog state during the request, and no other") {
  WorldData world(options());
  const Oracle oracle(world, form);
  const Exchange before = answered(world, "user");
  world.write({PutItem{.item = "i5", .title = "new", .tokens = {7, 8}, .identifier = 5}});
  const Exchange between = answered(world, "user");
  world.write({DeleteItem{.item = "i5"}});
  CHECK(oracle.validate(before.request, before.reply, 0, 2) == "");
  CHECK(oracle.validate(between.request, between.reply, 0, 2) == "");
  CHECK(oracle.validate(between.request, between.reply, 1, 1) == "");
  CHECK(oracle.validate(before.request, before.reply, 1, 2) != "");
  CHECK(oracle.validate(between.request, between.reply, 2, 2) ==
        "item i5 is not in catalog c2; expected a refusal");
}

TEST_CASE("oracle: wrong scores of label tokens are reported") {
  const WorldData world(options());
  const Oracle oracle(world, form);
  ScoreRequest request{.query = {1, 2, 3}, .items = {{{4, 5}}, {{6}}}, .label_tokens = {10, 11}};
  const Plan plan{{{SegmentKind::user, {1, 2, 3}, 0, {}},
                   {SegmentKind::item, {4, 5}, 3, {0}},
                   {SegmentKind::item, {6}, 3, {0}}},
                  {{1, 1, {10, 11}}, {2, 0, {10, 11}}}};
  ScoreReply reply{
      .items = evaluate("m1", plan), .tokens_total = 6, .tokens_computed = 6, .model_version = "m1"};
  CHECK(oracle.validate(request, reply) == "");
  ScoreReply lie = reply;
  lie.items[1].scores[0] += 1e-12;
  CHECK(oracle.validate(request, lie) == "items[1] has other scores than the model computes");
  lie = reply;
  lie.items[0].scores[1] += 1e-12;
  CHECK(oracle.validate(request, lie) == "items[0] has other scores than the model computes");
  lie = reply;
  lie.items.pop_back();
  CHECK(oracle.validate(request, lie) != "");
  lie = reply;
  lie.model_version = "m2";
  CHECK(oracle.validate(request, lie) != "");
  lie = reply;
  lie.tokens_computed = 5;
  CHECK(oracle.validate(request, lie) != "");
  request.apply_softmax = true;
  CHECK(oracle.validate(request, reply) != "");
  for (ScoreRow& row : reply.items) row.scores = router::softmax(row.scores);
  CHECK(oracle.validate(request, reply) == "");
}

namespace {

const PromptForm generator{{1, 2}, {3}, {4}, {}, 80, 5'000};

WorldOptions few_tokens() {
  return {
      .items = 150, .users = 10, .vocabulary = 9, .item_tokens_min = 3, .item_tokens_max = 3, .absent = 0.05};
}

std::vector<Item> items_of(const WorldData& world) {
  std::vector<Item> items;
  for (std::uint64_t i = 0; i < world.options().items; ++i)
    if (auto item = world.item(WorldData::item_id(i), "c2")) items.push_back(std::move(*item));
  return items;
}

// Answer of a correct cluster: the router's own request and the device's search.
GenerateReply generated(const WorldData& world, const GenerateRequest& request) {
  const auto catalog = std::make_shared<const ListedCatalog>(items_of(world), "c2");
  const auto profile = std::make_shared<const Profile>(*world.profile("", request.user));
  const auto asked = router::take_generate(request, router::policy("user"));
  const auto refusal =
      asked->take(generator, {}, {profile, catalog, catalog->find_all(asked->features()->items)});
  REQUIRE_MESSAGE(!refusal, refusal->what);
  const router::BlockNames names(generator, {"m1", "layout"});
  const Plan plan = asked->candidates(generator, names).at(0).plan;
  std::vector<SegmentValue> values, seen;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    gather_seen(plan, s, values, seen);
    values.push_back(
        toy_decoder().value_of(model_key("m1"), plan.segments[s].tokens, plan.segments[s].start, seen));
  }
  const auto last = static_cast<std::uint32_t>(plan.segments.back().tokens.size() - 1);
  const std::vector<Beam> beams =
      search_paths(toy_decoder(), model_key("m1"), values.back(), last, plan.search, catalog->paths().get());
  CHECK(asked->validate_beams(beams) == "");
  const auto tokens = static_cast<std::uint32_t>(token_count(plan));
  return std::get<GenerateReply>(asked->reply(
      {.beams = beams, .tokens_total = tokens, .tokens_computed = tokens, .model_version = "m1"}));
}

}  // namespace

TEST_CASE(
    "oracle: the router's request and the device's search match generate_by_hand for all widths and lists") {
  const WorldData world(few_tokens());
  Oracle oracle(world, generator);
  std::size_t shared = 0, fewer = 0;
  for (const std::uint32_t width : {0u, 1u, 2u, 5u, 30u, 200u})
    for (std::uint64_t user = 0; user < 10; ++user) {
      GenerateRequest request{.user = WorldData::user_id(user), .width = width};
      for (int variant = 0; variant < 6; ++variant) {
        request.exclude_seen = variant % 2 == 1;
        request.among_allowed = variant == 1;
        request.normalised = variant == 4 ? Normalised::allowed : Normalised::by_model;
        request.top_k = width >= 200 ? width : variant == 2 ? 1 : 0;
        request.logprobs = variant < 2;
        request.allow =
            variant == 3 ? std::vector<std::string>{"i3", "i5", "i11"} : std::vector<std::string>();
        request.deny = variant > 3 ? std::vector<std::string>{"i1", "i2", "i3", "i7", "i20"}
                                   : std::vector<std::string>();
        std::erase_if(request.allow, [&](const std::string& id) { return !world.item(id, "c2"); });
        const GenerateReply reply = generated(world, request);
        CHECK(oracle.validate(request, reply) == "");
        for (std::size_t i = 1; i < reply.items.size(); ++i)
          shared += reply.items[i].tokens == reply.items[i - 1].tokens;
        fewer += !reply.reason.empty();
      }
    }
  CHECK(shared > 0);
  CHECK(fewer > 0);
}

TEST_CASE("oracle: every single wrong field of a generated answer is reported") {
  const WorldData world(few_tokens());
  Oracle oracle(world, generator);
  const GenerateRequest request{.user = "u1", .top_k = 5, .logprobs = true};
  const GenerateReply right = generated(world, request);
  REQUIRE(oracle.validate(request, right) == "");
  const auto found = [&](const std::function<void(GenerateReply&)>& change) {
    GenerateReply wrong = right;
    change(wrong);
    return oracle.validate(request, wrong) != "";
  };
  CHECK(found([](auto& r) { std::swap(r.items[1], r.items[2]); }));
  CHECK(found([](auto& r) { r.items[4].log_probability += 1e-9; }));
  CHECK(found([](auto& r) { r.items[0].tokens[0] += 1; }));
  CHECK(found([](auto& r) { r.items[2].by_token[0] -= 1e-9; }));
  CHECK(found([](auto& r) { r.items[3].by_token.clear(); }));
  CHECK(found([](auto& r) { r.items.pop_back(); }));
  CHECK(found([](auto& r) { r.reason = "none"; }));
  CHECK(found([](auto& r) { r.width = 64; }));
  CHECK(found([](auto& r) { ++r.history_cut; }));
  CHECK(found([](auto& r) { ++r.tokens_total; }));
  CHECK(found([](auto& r) { r.model_version = "m2"; }));
  CHECK(found([](auto& r) { r.catalog_version = "c9"; }));
  CHECK(found([](auto& r) { r.profile_version = 77; }));
  CHECK(found([](auto& r) { r.user = "u2"; }));
}

}  // namespace oracle_test
