#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "kernels/base/plan.h"
#include "router/request/request.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace embed_request_test {

PromptForm text_form() {
  PromptForm form{{1}, {2}, {}, {3}, 8, 100};
  form.state = 2;
  return form;
}
PromptForm item_form() {
  PromptForm form{{}, {}, {}, {}, 8, 100};
  form.arrangements = {Arrangement::history};
  form.history_part = 2;
  form.state = 2;
  return form;
}
const BlockNames names(text_form(), {"model 1", "layout 1"});

EmbedRequest of_texts() { return {.id = 4, .texts = {{{10, 20, 30}}, {{11}}}}; }
EmbedRequest of_user() { return {.id = 5, .tenant = "t", .user = "ann", .request_timestamp = 90}; }

std::unique_ptr<Request> taken(EmbedRequest request) {
  return take_embed(std::move(request), policy("recompute"));
}
std::string fault(EmbedRequest request, const PromptForm& form, RequestLimits limits = {}) {
  const auto refusal = validate(request, form, limits);
  return refusal ? refusal->code + " " + refusal->where : "";
}

TEST_CASE("embedding: each text is a segment of its own, read at its last token") {
  const auto request = taken(of_texts());
  CHECK_FALSE(request->features().has_value());
  CHECK(request->policy() == nullptr);
  const std::vector<Candidate> made = request->candidates(text_form(), names);
  REQUIRE(made.size() == 1);
  const Plan& plan = made[0].plan;
  REQUIRE(plan.segments.size() == 2);
  CHECK(plan.segments[0] == Segment{.kind = SegmentKind::user, .tokens = std::vector<Token>{10, 20, 30}});
  CHECK(plan.segments[1] == Segment{.kind = SegmentKind::user, .tokens = std::vector<Token>{11}});
  CHECK(plan.readouts == std::vector<Readout>{{.segment = 0, .offset = 2, .what = Readout::What::state},
                                              {.segment = 1, .offset = 0, .what = Readout::What::state}});
  CHECK(kernels::validate(plan, {.vocabulary = 100, .positions_max = 8, .state = 2}) == "");
  for (const SegmentBlock& block : made[0].blocks) CHECK_FALSE(block.name.has_value());
}

TEST_CASE("embedding: a user is read at the last event, behind the blocks of the history") {
  const auto request = taken(of_user());
  CHECK(request->features()->user == "ann");
  const auto none = std::make_shared<const ListedCatalog>(std::vector<Item>{}, "catalog 1");
  const Refusal unknown = *request->take(item_form(), {}, {nullptr, none, {}});
  CHECK(unknown.code == "unknown_user");
  CHECK(unknown.where == "input");
  CHECK(unknown.what == "user \"ann\" of tenant \"t\" has no profile");
  const auto empty = std::make_shared<const Profile>(Profile{3, {}, {}});
  CHECK(request->take(item_form(), {}, {empty, none, {}})->code == "empty_history");
  const auto profile = std::make_shared<const Profile>(Profile{7, {5, 6, 7}, {1, 1, 1}});
  REQUIRE_FALSE(request->take(item_form(), {}, {profile, none, {}}).has_value());
  CHECK(request->profile_version() == 7);
  const Candidate made = request->candidates(item_form(), names).at(0);
  REQUIRE(made.plan.segments.size() == 2);
  CHECK(made.plan.segments[1].tokens == Tokens{7});
  CHECK(made.plan.readouts ==
        std::vector<Readout>{{.segment = 1, .offset = 0, .what = Readout::What::state}});
}

TEST_CASE(
    "embedding: a user's state is that of the events which a ranking reads, and never comes from a block") {
  const Profile longer{7, {1, 2, 3, 4, 5, 6, 7, 8, 9}, std::vector<std::uint32_t>(9, 1)};
  const auto profile = std::make_shared<const Profile>(longer);
  const auto none = std::make_shared<const ListedCatalog>(std::vector<Item>{}, "catalog 1");
  PromptForm form = item_form();  // of 8 positions, one of which is a candidate's
  for (const bool whole : {false, true}) {
    CAPTURE(whole);
    form.whole_history = whole;
    const auto request = take_embed(of_user(), policy("user"));
    REQUIRE_FALSE(request->take(form, {}, {profile, none, {}}).has_value());
    CHECK(request->situation().user_tokens == 7);
    const Candidate made = request->candidates(form, names).at(0);
    REQUIRE(made.blocks.size() == made.plan.segments.size());
    CHECK(made.plan.segments.front().tokens[0] == 3);
    CHECK(made.plan.readouts.at(0).segment == made.plan.segments.size() - 1);
    CHECK_FALSE(made.blocks.back().name.has_value());
    CHECK(made.blocks.front().name.has_value() == !whole);
  }
}

TEST_CASE("embedding: states are divided by their length") {
  const auto request = taken(of_texts());
  RunResult run;
  run.rows = {{{3, -4}}, {{0, 0}}};
  run.tokens_total = 4;
  const Message message = request->reply(std::move(run));
  const auto& reply = std::get<EmbedReply>(message);
  CHECK(reply.id == 4);
  CHECK(reply.tokens_total == 4);
  REQUIRE(reply.embeddings.size() == 2);
  CHECK(reply.embeddings[0].scores[0] == doctest::Approx(0.6));
  CHECK(reply.embeddings[0].scores[1] == doctest::Approx(-0.8));
  CHECK(reply.embeddings[1].scores == std::vector<double>{0, 0});
}

TEST_CASE("embedding: equal contents have equal fingerprints, others do not") {
  CHECK(taken(of_texts())->fingerprint() == taken(of_texts())->fingerprint());
  EmbedRequest other = of_texts();
  other.texts[1].tokens = {12};
  CHECK(taken(other)->fingerprint() != taken(of_texts())->fingerprint());
  CHECK(taken(of_user())->fingerprint() != taken(of_texts())->fingerprint());
}

TEST_CASE("embedding: what the model cannot embed is refused") {
  CHECK(fault(of_texts(), text_form()) == "");
  CHECK(fault(of_user(), item_form()) == "");
  CHECK(fault(of_user(), text_form()) == "no_texts input");
  CHECK(fault(of_texts(), item_form()) == "not_an_embedder model");
  PromptForm none = text_form();
  none.state = 0;
  CHECK(fault(of_texts(), none) == "not_an_embedder model");
  PromptForm towers = item_form();
  towers.arrangements = {Arrangement::towers};
  CHECK(fault(of_user(), towers) == "not_an_embedder model");
  EmbedRequest bad = of_texts();
  bad.texts[1].tokens = {100};
  CHECK(fault(bad, text_form()) == "unknown_token input[1][0]");
  bad.texts[1].tokens = {};
  CHECK(fault(bad, text_form()) == "empty_item input[1]");
  bad.texts[1].tokens.assign(9, 5);
  CHECK(fault(bad, text_form()) == "too_long input");
  bad = of_texts();
  bad.budget_us = -1;
  CHECK(fault(bad, text_form()) == "bad_budget budget_us");
  CHECK(fault(of_texts(), text_form(), {.score_items_max = 1}) == "too_many_items input");
  CHECK(fault(of_texts(), text_form(), {.request_tokens_max = 3}) == "too_many_tokens input");
  PromptForm wide = text_form();
  wide.state = 600'000;  // numbers of one reply
  CHECK(fault(of_texts(), wide) == "too_many_items input");
  bad = of_user();
  bad.request_timestamp = 1'764'000'000'000;  // milliseconds
  CHECK(fault(bad, item_form()) == "bad_timestamp request_timestamp");
  EmbedRequest nobody = of_user();
  nobody.user = "";
  CHECK(fault(nobody, item_form()) == "empty_user user");
}

}  // namespace embed_request_test
}  // namespace troupe::router
