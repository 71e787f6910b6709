#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <tuple>

#include "router/request/plans.h"
#include "runtime/actor/user_home.h"

namespace troupe::router {
namespace plan_events_test {

const NameContext context{"model 1", "layout 1"};

std::vector<Item> items_of(Token count) {
  std::vector<Item> items;
  for (Token n = 0; n < count; ++n) items.push_back({"item " + std::to_string(n), "", {100 + n}, 1'044, {}});
  return items;
}

TEST_CASE("history plan: events and candidates have no frame, and all but the last event are blocks") {
  const PromptForm form{.positions_max = 200,
                        .vocabulary = 50'000,
                        .arrangements = {Arrangement::history},
                        .token_features = 2,
                        .history_part = 64};
  CHECK_FALSE(form.generates());
  Profile profile{1,
                  std::vector<Token>(131),
                  std::vector<std::uint32_t>(131, 1),
                  {{"timestamps", std::vector<std::int64_t>(131)}}};
  std::iota(profile.tokens.begin(), profile.tokens.end(), 20);
  std::iota(profile.features[0].values.begin(), profile.features[0].values.end(), 1'000);
  const std::vector<Item> items = items_of(3);
  const BlockNames names(form, context);
  const std::vector<ItemView> seen = views(items);
  const auto build_at = [&](const Profile& of, std::int64_t now, std::string_view tenant = "t") {
    const FittedHistory history = fit_history(form, of, 1);
    return find_plan("history")->build({.form = form,
                                        .names = &names,
                                        .tenant = tenant,
                                        .user = "ann",
                                        .history = history.tokens,
                                        .items = seen,
                                        .features = history.features,
                                        .now = now});
  };
  const Candidate made = build_at(profile, 5'000);
  const auto& s = made.plan.segments;
  REQUIRE(s.size() == 7);  // 64, 64 and 2 events, the last one, three candidates
  CHECK(validate(made.plan,
                 {.vocabulary = 50'000, .positions_max = 200, .features = 2, .heads = 1, .moves = false}) ==
        "");
  CHECK(std::tuple(s[0].tokens.size(), s[1].start, s[2].tokens.size(), s[3].start) ==
        std::tuple(64u, 64, 2u, 130));
  CHECK(s[2].sees == VisibleSegments{0, 1});
  CHECK(std::vector(s[0].features.begin(), s[0].features.begin() + 4) ==
        std::vector<std::int64_t>{1'000, 1'001, 1'001, 1'002});
  CHECK(s[2].features == std::vector<std::int64_t>{1'128, 1'129, 1'129, 1'130});
  CHECK(s[3].features == std::vector<std::int64_t>{1'130, 5'000});
  for (const std::size_t item : {4, 5, 6}) {
    CHECK(s[item].start == 131);
    CHECK(s[item].sees == VisibleSegments{0, 1, 2, 3});
    CHECK(s[item].features == std::vector<std::int64_t>{5'000, 5'000});
    CHECK(made.plan.readouts[item - 4] ==
          Readout{.segment = static_cast<std::uint32_t>(item), .what = Readout::What::head});
    CHECK_FALSE(made.blocks[item].name);
  }
  CHECK(made.blocks[0].owner == owner_of_user("t", "ann"));
  CHECK_FALSE(made.blocks[3].name);

  // A name covers everything that its rows depend on: not the request's time, and no event after
  // the next one.
  const auto names_of = [](const Candidate& candidate) {
    return std::vector{candidate.blocks[0].name, candidate.blocks[1].name, candidate.blocks[2].name};
  };
  CHECK(names_of(build_at(profile, 9'000)) == names_of(made));
  Profile other = profile;
  other.features[0].values[130] += 7;  // the time of the last event is only in the last block
  CHECK(build_at(other, 5'000).blocks[1].name == made.blocks[1].name);
  CHECK(build_at(other, 5'000).blocks[2].name != made.blocks[2].name);
  other = profile;
  other.features[0].values[64] += 1;  // the second block's first event follows the first block's last
  other.features[0].values[65] += 1;
  CHECK(build_at(other, 5'000).blocks[0].name != made.blocks[0].name);
  other = profile;
  other.tokens[3] += 1;
  for (const std::size_t block : {0, 1, 2})
    CHECK(build_at(other, 5'000).blocks[block].name != made.blocks[block].name);
  CHECK(build_at(profile, 5'000, "u").blocks[0].name != made.blocks[0].name);

  const Candidate nobody = build_at(Profile{1}, 5'000);
  REQUIRE(nobody.plan.segments.size() == 3);
  CHECK(nobody.plan.segments[0].start == 0);
  CHECK(nobody.plan.segments[0].sees == VisibleSegments{});
  profile.features[0].values.insert(profile.features[0].values.end(), 100, 2'000);
  profile.tokens.resize(231, 3), profile.events.resize(231, 1);
  const FittedHistory cut = fit_history(form, profile, 1);
  CHECK(cut.cut == 32);
  CHECK(cut.features[0].values.size() == 199);
  CHECK(cut.features[0].values[0] == 1'032);
}

TEST_CASE("history plan: a model of next items reads the candidates' rows at the last event") {
  PromptForm form{.positions_max = 11,
                  .vocabulary = 50'000,
                  .arrangements = {Arrangement::history},
                  .token_features = 3,
                  .next_items = true,
                  .history_part = 4};
  const Profile profile{1,
                        {20, 21, 22, 23, 24, 25},
                        std::vector<std::uint32_t>(6, 1),
                        {{"actions", {5, 4, 3, 2, 1, 0}}, {"timestamps", {10, 11, 12, 13, 14, 15}}}};
  const std::vector<Item> items = items_of(3);
  const std::vector<ItemView> seen = views(items);
  const auto build = [&] {
    const BlockNames names(form, context);
    const FittedHistory history = fit_history(form, profile, 1);
    return find_plan("history")->build({.form = form,
                                        .names = &names,
                                        .tenant = "t",
                                        .user = "ann",
                                        .history = history.tokens,
                                        .items = seen,
                                        .features = history.features,
                                        .now = 99});
  };
  Candidate made = build();
  REQUIRE(made.plan.segments.size() == 3);  // 4, 1 and the last event
  CHECK(made.plan.segments[1].features == std::vector<std::int64_t>{14, 15, 1});
  CHECK(made.plan.segments[2].features == std::vector<std::int64_t>{15, 99, 0});
  CHECK(made.plan.readouts == std::vector{Readout{.segment = 2, .rows = {100, 101, 102}}});
  CHECK(made.blocks[1].name);
  CHECK_FALSE(made.blocks[2].name);

  form.whole_history = true;
  made = build();
  REQUIRE(made.plan.segments.size() == 1);
  CHECK(made.plan.readouts == std::vector{Readout{.segment = 0, .offset = 5, .rows = {100, 101, 102}}});
  CHECK_FALSE(made.blocks[0].name);  // its last row is read

  form.next_items = false;  // candidates see the history, whose tokens have no times: a block
  form.token_features = 1;
  made = build();
  REQUIRE(made.plan.segments.size() == 4);
  CHECK(made.blocks[0].name);
  CHECK(made.plan.segments[0].features == std::vector<std::int64_t>{5, 4, 3, 2, 1, 0});
  CHECK(made.plan.segments[3].features == std::vector<std::int64_t>{-1});
}

TEST_CASE("towers plan: towers take events by action, each in its own blocks, and candidates see them all") {
  PromptForm form{.positions_max = 7,
                  .vocabulary = 50'000,
                  .arrangements = {Arrangement::towers},
                  .token_features = 3,
                  .scenarios = 2,
                  .history_part = 4};
  form.towers = {{6}, {3, 4}};
  form.tasks = {"click", "like"};
  Profile profile{1,
                  {20, 21, 22, 23, 24, 25, 26, 27, 28},
                  std::vector<std::uint32_t>(9, 1),
                  {{"actions", {5, 4, 1, 5, 2, 3, 1, 4, 1}}}};
  const std::vector<Item> items = items_of(2);
  const BlockNames names(form, context);
  const std::vector<ItemView> seen = views(items);
  const auto build_of = [&](const Profile& of, std::int64_t scenario = 1, const BlockNames* used = nullptr) {
    const FittedHistory history = fit_history(form, of, 1);
    return find_plan("towers")->build({.form = form,
                                       .names = used,
                                       .tenant = "t",
                                       .user = "ann",
                                       .history = history.tokens,
                                       .items = seen,
                                       .features = history.features,
                                       .scenario = scenario});
  };
  CHECK(fit_history(form, profile, 1).cut == 1);  // event 0 was liked, but three liked events are newer
  const Candidate made = build_of(profile, 1, &names);
  const auto& s = made.plan.segments;
  REQUIRE(s.size() ==
          5);  // the newest six in blocks of four and two, the newest three liked ones, two candidates
  CHECK(validate(made.plan,
                 {.vocabulary = 50'000, .positions_max = 7, .features = 3, .heads = 2, .moves = false}) ==
        "");
  CHECK(s[0].tokens == Tokens{23, 24, 25, 26});
  CHECK(s[0].features == std::vector<std::int64_t>{5, 0, 1, 2, 0, 1, 3, 0, 1, 1, 0, 1});
  CHECK(std::tuple(s[1].tokens, s[1].start, s[1].sees) == std::tuple(Tokens{27, 28}, 4, VisibleSegments{0}));
  CHECK(std::tuple(s[2].tokens, s[2].start, s[2].sees) ==
        std::tuple(Tokens{21, 23, 27}, 0, VisibleSegments{}));
  CHECK(s[2].features == std::vector<std::int64_t>{4, 1, 1, 5, 1, 1, 4, 1, 1});
  for (const std::uint32_t item : {3u, 4u}) {
    CHECK(s[item].sees == VisibleSegments{0, 1, 2});
    CHECK(s[item].features == std::vector<std::int64_t>{0, -1, 1});
    CHECK_FALSE(made.blocks[item].name);
    for (const std::uint32_t task : {0u, 1u}) {
      const Readout& readout = made.plan.readouts[(item - 3) * 2 + task];
      CHECK(std::tuple(readout.segment, readout.what, readout.head) ==
            std::tuple(item, Readout::What::head, task));
    }
  }
  for (const std::size_t block : {0, 1, 2}) CHECK(made.blocks[block].owner == owner_of_user("t", "ann"));
  CHECK_FALSE(build_of(profile).blocks[0].name);

  // A name covers what the rows depend on: scenario, actions, and only what precedes them in the
  // same tower.
  CHECK(build_of(profile, 0, &names).blocks[0].name != made.blocks[0].name);
  Profile other = profile;
  other.features[0].values[5] = 2;
  CHECK(build_of(other, 1, &names).blocks[0].name != made.blocks[0].name);
  CHECK(build_of(other, 1, &names).blocks[1].name != made.blocks[1].name);
  CHECK(build_of(other, 1, &names).blocks[2].name == made.blocks[2].name);
  // nothing was liked, so that tower has no segment
  Profile two{1, {20, 21}, {1, 1}, {{"actions", {1, 1}}}};
  CHECK(build_of(two, 1, &names).plan.segments.size() == 3);
  const Candidate nobody = build_of(Profile{1}, 1, &names);
  REQUIRE(nobody.plan.segments.size() == 2);
  CHECK(nobody.plan.segments[1].sees == VisibleSegments{});
}

}  // namespace plan_events_test
}  // namespace troupe::router
