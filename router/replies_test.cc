// Tests how each reply reports its run: versions, tokens, timings. Every field has a distinct
// value.
#include <doctest/doctest.h>

#include <memory>

#include "router/request/request.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace replies_test {

const std::vector<Item> catalog{{"a", "the a", {10, 11}, 1, {}}, {"b", "the b", {12, 13}, 2, {}}};

RunResult outcome_of(std::string_view plan) {
  RunResult outcome;
  outcome.plan = plan;
  outcome.tokens_total = 31, outcome.tokens_computed = 32, outcome.tokens_reused = 33;
  outcome.blocks_reused = 34, outcome.blocks_written = 35;
  outcome.timings.total = 36, outcome.timings.compute = 37;
  outcome.model_version = "model 3";
  outcome.node = 38;
  outcome.approximate = 0.25;
  return outcome;
}

// Checks the fields that the replies of all runs share.
template <class Reply>
void check_run(const Reply& reply) {
  CHECK(reply.tokens_total == 31);
  CHECK(reply.tokens_computed == 32);
  CHECK(reply.tokens_reused == 33);
  CHECK(reply.model_version == "model 3");
  CHECK(reply.timings.total == 36);
  CHECK(reply.timings.compute == 37);
}

// Checks the fields of replies about a user; `reply_with` makes the reply for given features.
template <class ReplyWith>
void check_of_user(const ReplyWith& reply_with) {
  const auto reply = reply_with(Features::Source::store);
  check_run(reply);
  CHECK(reply.id == 9);
  CHECK(reply.user == "ann");
  CHECK(reply.blocks_reused == 34);
  CHECK(reply.blocks_written == 35);
  CHECK(reply.node == 38);
  CHECK(reply.catalog_version == "catalog 5");
  CHECK(reply.profile_version == 77);
  CHECK(reply.history_cut == 0);
  for (const Features::Source of : {Features::Source::store, Features::Source::cache, Features::Source::stale,
                                    Features::Source::missing}) {
    CHECK(reply_with(of).features_stale == (of == Features::Source::stale));
    CHECK(reply_with(of).features_missing == (of == Features::Source::missing));
  }
}

Features features_of(const Request& request, Features::Source of) {
  const auto all = std::make_shared<const ListedCatalog>(catalog, "catalog 5");
  Profile user{77, {10, 11, 12, 13}, {2, 2}};
  return {std::make_shared<const Profile>(user), all, all->find_all(request.features()->items), of};
}

RankReply rank_reply(RankRequest asked, Features::Source of = Features::Source::store) {
  const PromptForm form{{1}, {}, {}, {2}, 32, 100};
  asked.id = 9, asked.user = "ann";
  const auto request = take_rank(asked, policy("user"));
  REQUIRE_FALSE(request->take(form, {}, features_of(*request, of)));
  RunResult outcome = outcome_of("user");
  outcome.rows = {{{2, 1}}};
  return std::get<RankReply>(request->reply(std::move(outcome)));
}

TEST_CASE("replies: a ranking reports its run, profile, catalog and skipped candidates") {
  check_of_user([](Features::Source of) { return rank_reply({.candidates = {"a", "b"}}, of); });
  const RankReply reply = rank_reply({.candidates = {"a", "b"}});
  CHECK(reply.policy == "user");
  CHECK(reply.plan == "user");
  CHECK(reply.approximate == 0.25);
  CHECK(reply.skipped.empty());
  CHECK(reply.tasks.empty());
  REQUIRE(reply.items.size() == 2);
  CHECK(reply.items[0].id == "a");
  const RankReply skipped =
      rank_reply({.candidates = {"a", "none", "b"}, .unknown = UnknownCandidates::skip});
  CHECK(skipped.skipped == std::vector<std::string>{"none"});
  CHECK(skipped.items.size() == 2);
}

TEST_CASE("replies: a generation reports its run, profile and catalog") {
  const PromptForm form{{1}, {}, {}, {}, 32, 100};
  const auto reply_with = [&](Features::Source of) {
    const auto request =
        take_generate(GenerateRequest{.id = 9, .user = "ann", .top_k = 1, .width = 4}, policy("bat"));
    REQUIRE_FALSE(request->take(form, {}, features_of(*request, of)));
    RunResult outcome = outcome_of("user");
    outcome.beams = {{{12, 13}, -0.5}};
    return std::get<GenerateReply>(request->reply(std::move(outcome)));
  };
  check_of_user(reply_with);
  const GenerateReply reply = reply_with(Features::Source::store);
  CHECK(reply.width == 4);
  CHECK(reply.reason == "");
  REQUIRE(reply.items.size() == 1);
  CHECK(reply.items[0].id == "b");
}

TEST_CASE("replies: scores report their run, raw or as shares of one") {
  const PromptForm form{{1}, {}, {}, {}, 32, 100};
  const auto reply_of = [&](bool softmax) {
    const auto request = take_score(
        ScoreRequest{
            .id = 9, .query = {3}, .items = {{{4}}, {{5}}}, .label_tokens = {6, 7}, .apply_softmax = softmax},
        policy("bat"));
    RunResult outcome = outcome_of("score");
    outcome.rows = {{{1, 1}}, {{0, -1}}};
    return std::get<ScoreReply>(request->reply(std::move(outcome)));
  };
  const ScoreReply reply = reply_of(false);
  check_run(reply);
  CHECK(reply.id == 9);
  REQUIRE(reply.items.size() == 2);
  CHECK(reply.items[1].scores == std::vector<double>{0, -1});
  const ScoreReply shares = reply_of(true);
  CHECK(shares.items[0].scores == std::vector<double>{0.5, 0.5});
  CHECK(shares.items[1].scores[0] > 0.7);
}

}  // namespace replies_test
}  // namespace troupe::router
