#include <doctest/doctest.h>

#include <string>

#include "kernels/base/path_index.h"
#include "kernels/base/plan.h"
#include "router/request/request.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace complete_request_test {

const PromptForm form{{1}, {}, {}, {}, 8, 100};
const BlockNames names(form, {"model 1", "layout 1"});
const kernels::PlanLimits model_limits{.vocabulary = 100, .positions_max = 8, .width_max = 64};

Item item_of(const std::string& id, std::vector<Token> tokens) { return {id, id, std::move(tokens), 1, {}}; }
const std::vector<Item> catalog{item_of("a", {10, 20, 30}), item_of("b", {10, 21, 30})};

CompleteRequest sound() { return {.id = 4, .prompt = {1, 10, 20}, .max_tokens = 2, .n = 3}; }
CompleteRequest of_items() {
  CompleteRequest request = sound();
  request.items = true;
  request.max_tokens = 16;
  return request;
}

Plan plan_of(Request& request) { return request.candidates(form, names).at(0).plan; }

std::optional<Refusal> give_catalog(Request& request, std::vector<Item> items,
                                    const PromptForm& prompt_form = form) {
  const auto all = std::make_shared<const ListedCatalog>(std::move(items), "catalog 1");
  return request.take(prompt_form, {}, {nullptr, all, {}});
}

TEST_CASE("completion: the plan is the given prompt and a search of the whole vocabulary after it") {
  const auto request = take_complete(sound(), policy("bat"));
  CHECK_FALSE(request->features().has_value());
  CHECK(request->catalog_version() == "");
  const std::vector<Candidate> made = request->candidates(form, names);
  REQUIRE(made.size() == 1);
  const Plan& plan = made[0].plan;
  REQUIRE(plan.segments.size() == 1);
  CHECK(plan.segments[0] == Segment{.kind = SegmentKind::user, .tokens = std::vector<Token>{1, 10, 20}});
  CHECK(plan.search == Search{.segment = 0, .width = 3, .results = 3, .steps = 2});
  CHECK(kernels::validate(plan, nullptr, model_limits) == "");
  CHECK_FALSE(made[0].blocks.at(0).name.has_value());
}

TEST_CASE("completion: a search may be wider than what is returned") {
  CompleteRequest wide = sound();
  wide.beam_width = 9;
  CHECK(plan_of(*take_complete(wide, policy("bat"))).search == Search{.width = 9, .results = 3, .steps = 2});
}

TEST_CASE("completion: for items it reads the catalog but no profile, and identifiers fix the path length") {
  const auto request = take_complete(of_items(), policy("bat"));
  const std::optional<FindFeatures> wanted = request->features();
  REQUIRE(wanted.has_value());
  CHECK(wanted->paths);
  CHECK(wanted->user == "");
  CHECK_FALSE(give_catalog(*request, catalog).has_value());
  CHECK(request->catalog_version() == "catalog 1");
  CHECK(plan_of(*request).search == Search{.width = 3, .results = 3});
}

TEST_CASE("completion: identifiers must fit max_tokens and the model's positions") {
  CHECK(give_catalog(*take_complete(of_items(), policy("bat")), {})->code == "empty_catalog");
  CompleteRequest brief = of_items();
  brief.max_tokens = 2;
  CHECK(give_catalog(*take_complete(brief, policy("bat")), catalog)->where == "max_tokens");
  brief.max_tokens = 3;
  CHECK_FALSE(give_catalog(*take_complete(brief, policy("bat")), catalog).has_value());
  CompleteRequest longer = of_items();
  longer.prompt.assign(6, 10);
  CHECK(give_catalog(*take_complete(longer, policy("bat")), catalog)->where == "prompt");
  longer.prompt.pop_back();
  CHECK_FALSE(give_catalog(*take_complete(longer, policy("bat")), catalog).has_value());
}

TEST_CASE("completion: paths of wrong length, unknown identifiers and repeated paths are refused") {
  const auto free = take_complete(sound(), policy("bat"));
  CHECK(free->validate_beams(std::vector<Beam>{{{5, 6}, -1}, {{5, 7}, -2}}) == "");
  CHECK(free->validate_beams(std::vector<Beam>{{{5}, -1}}) != "");
  CHECK(free->validate_beams(std::vector<Beam>{{{5, 6}, -1}, {{5, 6}, -1}}) != "");
  const auto items = take_complete(of_items(), policy("bat"));
  give_catalog(*items, catalog);
  CHECK(items->validate_beams(std::vector<Beam>{{{10, 21, 30}, -1}}) == "");
  CHECK(items->validate_beams(std::vector<Beam>{{{10, 21}, -1}}) != "");
  CHECK(items->validate_beams(std::vector<Beam>{{{10, 22, 30}, -1}}) != "");
}

TEST_CASE("completion: the reply has the paths as found, in the requested form") {
  CompleteRequest asked = of_items();
  asked.logprobs = true;
  const auto request = take_complete(asked, policy("bat"));
  give_catalog(*request, catalog);
  CHECK(plan_of(*request).search == Search{.width = 3, .results = 3, .by_token = true});
  const std::vector<Beam> found{{{10, 21, 30}, -1, {-0.5, -0.25, -0.25}},
                                {{10, 20, 30}, -2, {-0.5, -1, -0.5}}};
  const auto reply = std::get<CompleteReply>(
      request->reply({.beams = found, .tokens_total = 3, .model_version = "model 1"}));
  CHECK(reply.id == 4);
  CHECK(reply.completions == found);
  CHECK(reply.tokens_total == 3);
  CHECK((reply.logprobs && reply.items));
  CHECK(reply.model_version == "model 1");
  CHECK(reply.catalog_version == "catalog 1");
}

}  // namespace complete_request_test
}  // namespace troupe::router
