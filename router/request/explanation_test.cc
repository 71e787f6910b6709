#include "router/request/explanation.h"

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "router/request/plans.h"
#include "router/request/request.h"
#include "router/testing/router_core_test.h"
#include "runtime/actor/block_name.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace explanation_test {

using Ranges = std::vector<VisibleSegments::Range>;
using Numbers = std::vector<std::uint32_t>;
using Rows = std::vector<Token>;

const NameContext context{"model 1", "layout 1"};

PromptForm ranker() { return {{1, 10}, {4}, {7, 8}, {5}, 64, 1'000}; }

PromptForm scorer() {
  PromptForm form{{1, 9}, {}, {}, {}, 64, 1'000};
  form.item = {5};
  form.score = {6};
  form.yes = 7, form.no = 8;
  form.blocks_see_system = true;
  return form;
}

Profile history_of(std::uint32_t events, std::uint32_t tokens = 2) {
  Profile profile{1, std::vector<Token>(tokens * events), std::vector<std::uint32_t>(events, tokens)};
  std::iota(profile.tokens.begin(), profile.tokens.end(), 20);
  return profile;
}

// Three items, of which a and c have the same tokens.
std::vector<Item> three_items() {
  return {{"a", "", {100, 101}, 501, {}}, {"b", "", {200}, 502, {}}, {"c", "", {100, 101}, 503, {}}};
}

// Writes the plan of a request. Its tokens are those of `seen` and `history`, which must outlive it.
Candidate write(std::string_view plan, const PromptForm& form, const std::vector<ItemView>& seen,
                const FittedHistory& history, const RepairChoice& repair = {}) {
  const BlockNames names(form, context);
  return find_plan(plan)->build({.form = form,
                                 .names = &names,
                                 .tenant = "t",
                                 .user = "ann",
                                 .history = history.tokens,
                                 .events = history.events,
                                 .items = seen,
                                 .repair = repair,
                                 .features = history.features,
                                 .now = 9'000});
}

// A plan of a request, explained.
struct Explained {
  std::vector<SegmentBlock> blocks;
  std::vector<kernels::Repair::ReusedSpan> reused_spans;
  Explanation why;

  Explained(std::string_view plan, const PromptForm& form, const Profile& profile,
            std::vector<std::uint8_t> reused, const RepairChoice& repair = {},
            const std::vector<Item>& items = three_items()) {
    const std::vector<ItemView> seen = views(items);
    const FittedHistory history = fit_history(form, profile, item_positions(*find_plan(plan), form, seen));
    const Candidate sent = write(plan, form, seen, history, repair);
    blocks = sent.blocks;
    reused_spans = sent.plan.repair.reused_spans;
    why = explain({sent, reused, seen, form, history});
  }

  // Lists "item source" of all segments, such as "- cached, a computed".
  std::string sources() const {
    std::string text;
    for (const ExplainedSegment& segment : why.segments)
      text.append(text.empty() ? "" : ", ")
          .append(segment.item.empty() ? "-" : segment.item)
          .append(" " + segment.source);
    return text;
  }
  std::string scores() const {
    std::string text;
    for (const ExplainedScore& score : why.scores) {
      text.append(text.empty() ? "" : ", ").append(score.item + score.task + "@");
      text.append(std::to_string(score.segment) + "." + std::to_string(score.offset));
      for (const Token row : score.rows) text.append(" " + std::to_string(row));
      if (score.head > 0) text.append(" head " + std::to_string(score.head));
    }
    return text;
  }
};

TEST_CASE("explanation: a prefix plan has the prompt's tokens, positions and what each part sees") {
  const Explained item("item", ranker(), history_of(2), {1, 0, 1});
  const auto& s = item.why.segments;
  REQUIRE(s.size() == 7);  // system, a, b, c, user, instruction, discriminant
  CHECK(item.sources() == "- cached, a computed, b cached, c computed, - computed, - computed, - computed");
  CHECK(s[0].kind == SegmentKind::system);
  CHECK(s[0].tokens == Rows{1, 10});
  CHECK(s[3].tokens == Rows{100, 101});
  for (const std::size_t i : {1, 2, 3}) {
    CHECK(s[i].start == 2);
    CHECK(s[i].computed_at == 2);
    CHECK(s[i].sees == Ranges{{0, 1}});
  }
  CHECK(s[4].tokens == Rows{4, 20, 21, 22, 23});
  CHECK(s[4].start == 4);  // after the longest item
  CHECK(s[4].sees == Ranges{{0, 4}});
  CHECK(s[6].start == 4 + 5 + 2);
  CHECK(item.scores() == "a@6.0 501, b@6.0 502, c@6.0 503");
  CHECK(item.why.positions_max == 64);
  CHECK(item.why.cut == "");
  // Equal items have one block, computed ones are named if they are kept.
  CHECK(s[1].block == to_hex(*item.blocks[1].name));
  CHECK(s[1].block == s[3].block);
  CHECK(s[1].block.size() == 64);
  CHECK(s[4].block == "");
  for (const ExplainedSegment& segment : s) {
    CHECK(segment.node == 0);
    CHECK(segment.texts.empty());
    CHECK(segment.replaces.empty());
    CHECK(segment.filled_by.empty());
  }
}

TEST_CASE("explanation: a block that came from another node names it, unless it was computed after all") {
  const PromptForm form = ranker();
  const std::vector<Item> items = three_items();
  const std::vector<ItemView> seen = views(items);
  const FittedHistory history = fit_history(form, history_of(1), 2);
  Candidate sent = write("item", form, seen, history);
  for (const std::size_t i : {1, 2}) sent.blocks[i].at = 7;
  const std::vector<std::uint8_t> reused{1, 1, 0, 1};
  const Explanation why = explain({sent, reused, seen, form, history});
  const auto source = [&](std::size_t i) {
    return why.segments[i].source + std::to_string(why.segments[i].node);
  };
  CHECK(source(0) == "cached0");
  CHECK(source(1) == "pulled7");
  CHECK(source(2) == "computed0");
  CHECK(source(3) == "cached0");
  CHECK(source(4) == "computed0");  // the worker said nothing of it
}

TEST_CASE("explanation: candidates apart and scores behind each candidate are read where they are") {
  CHECK(Explained("apart", ranker(), history_of(1), {}).scores() == "a@2.4 501, b@3.3 502, c@4.4 503");
  const Explained apart("apart", scorer(), history_of(1), {1, 1});
  CHECK(apart.scores() == "a@2.3 7 8, b@3.2 7 8, c@4.3 7 8");
  CHECK(apart.sources() == "- cached, - cached, a computed, b computed, c computed");
  CHECK(apart.why.segments[2].tokens == Rows{5, 100, 101, 6});
  CHECK(apart.why.segments[4].sees == Ranges{{0, 2}});
  const Explained causal("causal", scorer(), history_of(1), {});
  CHECK(causal.scores() == "a@3.0 7 8, b@5.0 7 8, c@7.0 7 8");
  CHECK(causal.sources() ==
        "- computed, - computed, a computed, - computed, b computed, - computed, c computed, - computed");
}

TEST_CASE("explanation: repaired candidates of an item-first prompt are filled by their blocks") {
  const Explained item("item", ranker(), history_of(1), {0, 1}, {.share = 0.5});
  // system; three blocks; a, b, c; user; instruction; discriminant
  CHECK(item.sources() ==
        "- computed, a cached, b computed, c computed, a filled, b filled, c filled, - computed, "
        "- computed, - computed");
  CHECK(item.why.segments[4].filled_by == Numbers{1});
  CHECK(item.why.segments[6].filled_by == Numbers{3});
  CHECK(item.why.segments[6].sees == Ranges{{0, 1}, {4, 6}});
  CHECK(item.scores() == "a@9.0 501, b@9.0 502, c@9.0 503");
}

TEST_CASE("explanation: scores of an item-first prompt that are read for each candidate are theirs") {
  const Explained item("item", scorer(), history_of(1), {1, 1, 0, 1});
  CHECK(item.sources() ==
        "- cached, a cached, b computed, c cached, - computed, - computed, - computed, - computed");
  CHECK(item.scores() == "a@5.0 7 8, b@6.0 7 8, c@7.0 7 8");
  CHECK(item.why.segments[6].sees == Ranges{{0, 1}, {2, 3}, {4, 5}});
  const Explained user("user", scorer(), history_of(1), {1, 1});
  CHECK(user.scores() == Explained("apart", scorer(), history_of(1), {1, 1}).scores());
}

TEST_CASE("explanation: reused spans are filled by their blocks, which belong to the same candidates") {
  const Explained blocks("blocks", scorer(), history_of(1), {1, 1, 0, 1}, {.share = 0.25});
  // system; three blocks; user; a, score, b, score, c, score
  CHECK(blocks.sources() ==
        "- cached, a cached, b computed, c cached, - computed, a filled, - computed, b filled, - computed, "
        "c filled, - computed");
  CHECK(blocks.why.segments[9].filled_by == Numbers{3});
  CHECK(blocks.why.segments[3].filled_by.empty());
  CHECK(blocks.why.segments[3].block == blocks.why.segments[1].block);
  CHECK(blocks.why.segments[9].block == "");
  CHECK(blocks.scores() == "a@6.0 7 8, b@8.0 7 8, c@10.0 7 8");
}

// Prototypes for even tokens.
class EvenTokens final : public PrototypeSet {
 public:
  bool has_prototype(Token token, std::uint32_t) const override { return token % 2 == 0; }
  const std::string& checksum() const override { return checksum_; }
  const std::string& model_version() const override { return model_; }

 private:
  const std::string checksum_ = "even", model_ = context.model_version;
};

TEST_CASE("explanation: a block of prototypes says so") {
  PromptForm form = ranker();
  form.prototype_set = std::make_shared<EvenTokens>();
  const RepairChoice choice{.share = 0.5, .by = RepairChoice::By::tail, .prototypes = true};
  const Explained all("all_blocks", form, history_of(1), {}, choice);
  std::size_t of_prototypes = 0;
  for (const auto& span : all.reused_spans) {
    CHECK(all.why.segments[span.segment].source == "filled");
    CHECK(all.why.segments[span.segment].filled_by == Numbers{span.block});
    CHECK(all.why.segments[span.block].source == (span.of_prototypes ? "prototypes" : "computed"));
    of_prototypes += span.of_prototypes;
  }
  CHECK(of_prototypes > 0);
}

TEST_CASE("explanation: tokens that are items have their features, and scores their tasks") {
  PromptForm form{.positions_max = 200, .vocabulary = 1'000, .arrangements = {Arrangement::history}};
  form.token_features = 2;
  form.history_part = 2;
  form.tasks = {"buy", "like"};
  Profile profile = history_of(3, 1);
  profile.features = {{"timestamps", {10, 20, 30}}};
  const std::vector<Item> items{{"a", "", {100}, 1, {}}, {"b", "", {101}, 2, {}}};
  const Explained history("history", form, profile, {1}, {}, items);
  CHECK(history.sources() == "- cached, - computed, a computed, b computed");
  CHECK(history.why.segments[1].features == std::vector<std::int64_t>{30, 9'000});
  CHECK(history.scores() == "abuy@2.0, alike@2.0 head 1, bbuy@3.0, blike@3.0 head 1");
}

TEST_CASE("explanation: what was cut is said with its reason") {
  PromptForm form = ranker();
  CHECK(Explained("user", form, history_of(40), {}).why.cut ==
        "the oldest 12 of the 40 events of the history: the model has 64 positions");
  form.events_max = 5;
  CHECK(Explained("user", form, history_of(40), {}).why.cut ==
        "the oldest 35 of the 40 events of the history: the form reads the newest 5");
  CHECK(Explained("user", form, history_of(5), {}).why.cut == "");
  PromptForm climber{.positions_max = 64, .vocabulary = 1'000, .arrangements = {Arrangement::towers}};
  climber.token_features = 3;
  climber.towers = {{2}, {1, 4}};
  Profile profile = history_of(6, 1);
  profile.features = {{"actions", {1, 4, 1, 4, 1, 1}}};
  const std::vector<Item> items{{"a", "", {100}, 1, {}}};
  CHECK(Explained("towers", climber, profile, {}, {}, items).why.cut ==
        "3 of the 6 events of the history, which no tower reads");
}

TEST_CASE("explanation: a reply has one only if the request asks for it, without skipped candidates") {
  const PromptForm form = ranker();
  const BlockNames names(form, context);
  const auto reply_to = [&](bool explain) {
    const auto all = std::make_shared<const ListedCatalog>(three_items(), "catalog 5");
    const auto request = take_rank(RankRequest{.user = "ann",
                                               .candidates = {"a", "none", "c"},
                                               .top_k = 1,
                                               .unknown = UnknownCandidates::skip,
                                               .explain = explain},
                                   policy("planner"));
    const Features features{std::make_shared<const Profile>(history_of(1)), all,
                            all->find_all(request->features()->items), Features::Source::store};
    REQUIRE_FALSE(request->take(form, {}, features));
    const Candidate sent = std::move(request->candidates(form, names).front());
    const std::vector<std::uint8_t> reused{1};
    RunResult run{.rows = {{{2, 3}}}, .plan = sent.name, .sent = &sent, .reused = reused};
    return std::get<RankReply>(request->reply(std::move(run)));
  };
  CHECK(reply_to(false).explanation == Explanation{});
  const RankReply reply = reply_to(true);
  CHECK(reply.items.size() == 1);
  REQUIRE(reply.explanation.scores.size() == 2);
  CHECK(reply.explanation.scores[1].item == "c");
  CHECK(reply.explanation.segments.at(0).source == "cached");
  CHECK(reply.explanation.segments.at(0).block == to_hex(*names.system()));
}

TEST_CASE("explanation: a model of next items says which rows it read, and refuses a user without events") {
  PromptForm form{.positions_max = 64, .vocabulary = 1'000, .arrangements = {Arrangement::history}};
  form.next_items = true;
  form.temperature = 0.5;
  const BlockNames names(form, context);
  const auto all = std::make_shared<const ListedCatalog>(three_items(), "catalog 5");
  const auto taken = [&](std::size_t events, std::optional<Refusal>& refusal) {
    auto request =
        take_rank(RankRequest{.user = "ann", .candidates = {"a", "c"}, .explain = true}, policy("planner"));
    const Features features{std::make_shared<const Profile>(history_of(events, 1)), all,
                            all->find_all(request->features()->items), Features::Source::store};
    refusal = request->take(form, {}, features);
    return request;
  };
  std::optional<Refusal> refusal;
  const auto request = taken(3, refusal);
  REQUIRE_FALSE(refusal);
  const Candidate sent = std::move(request->candidates(form, names).front());
  RunResult run{.rows = {{{2, 3}}}, .plan = sent.name, .sent = &sent};
  const auto reply = std::get<RankReply>(request->reply(std::move(run)));
  REQUIRE(reply.explanation.scores.size() == 2);
  CHECK(reply.explanation.scores[1].item == "c");
  CHECK(reply.explanation.scores[1].rows.size() == 1);
  CHECK(reply.items[0].id == "c");
  CHECK(reply.items[0].score == 1.5);
  taken(0, refusal);
  REQUIRE(refusal);
  CHECK(refusal->code == "empty_history");
  CHECK(refusal->what == "user \"ann\" has no events");
}

TEST_CASE("explanation: a request is refused if it is too long for one, and only then") {
  PromptForm form = ranker();
  form.positions_max = 100'000;
  RequestLimits limits;
  limits.request_tokens_max = 1'000'000;
  const auto refusal_of = [&](bool explain, std::size_t events) {
    const auto all = std::make_shared<const ListedCatalog>(three_items(), "catalog 5");
    const auto request =
        take_rank(RankRequest{.user = "ann", .candidates = {"a"}, .explain = explain}, policy("planner"));
    const Features features{std::make_shared<const Profile>(history_of(events)), all,
                            all->find_all(request->features()->items), Features::Source::store};
    const auto refusal = request->take(form, limits, features);
    return refusal ? refusal->code : "";
  };
  CHECK(refusal_of(true, 17'000) == "too_long_to_explain");
  CHECK(refusal_of(false, 17'000) == "");
  CHECK(refusal_of(true, 100) == "");
}

TEST_CASE("explanation: a router explains the plan that it sent, by what the worker reused") {
  RouterBench b;
  b.probe.receive(0, server,
                  RankRequest{.id = 9,
                              .tenant = "t",
                              .user = "ann",
                              .candidates = {"a", "b"},
                              .policy = "user",
                              .explain = true});
  for (const auto& [started, work] : b.probe.started<FindFeatures>()) b.job = started;
  b.find(10);
  b.index(30, 2, 1);
  const Execute sent = b.plan();
  b.execute(100, {1.0, 2.0}, {1, 0, 0, 0, 0, 0});
  const Explanation why = b.probe.sent<RankReply>().at(0).explanation;
  REQUIRE(why.segments.size() == sent.plan.segments.size());
  for (std::size_t i = 0; i < why.segments.size(); ++i) {
    CHECK(why.segments[i].tokens == sent.plan.segments[i].tokens.copy());
    CHECK(why.segments[i].source == (i == 0 ? "cached" : "computed"));
    CHECK(why.segments[i].block == (sent.blocks[i].name ? to_hex(*sent.blocks[i].name) : ""));
  }
  CHECK(why.segments[2].item == "a");
  CHECK(why.segments[3].item == "b");
  REQUIRE(why.scores.size() == 2);
  CHECK(why.scores[0].segment == sent.plan.readouts.at(0).segment);
}

}  // namespace explanation_test
}  // namespace troupe::router
