#include "router/request/request_check.h"

#include <doctest/doctest.h>

#include <functional>

#include "runtime/testing/shared_ranker.h"

namespace troupe::router {
namespace request_check_test {

const PromptForm form = shared_ranker({{1}, {2}, {3}, {4}, 20, 100});
const RequestLimits limits{.candidates_max = 3,
                           .score_items_max = 2,
                           .score_labels_max = 2,
                           .request_tokens_max = 16,
                           .history_max = 4,
                           .id_bytes_max = 8};

RankRequest rank() { return {1, "t", "ann", {"a", "b"}}; }
ScoreRequest score() { return {1, "t", {5, 6}, {{{7}}, {{8, 9}}}, {10, 11}}; }

// Returns kind and code, or "sound".
template <class Request, class... More>
std::string verdict(Request request, std::function<void(Request&)> change, const More&... more) {
  change(request);
  const auto fault = validate(request, more..., limits);
  return fault ? std::string(name_of(fault->kind)) + " " + fault->code : "sound";
}

TEST_CASE("request check: a ranking request is checked field by field") {
  const auto check = [](std::function<void(RankRequest&)> change) { return verdict(rank(), change, form); };
  CHECK(check([](auto&) {}) == "sound");
  CHECK(check([](auto& r) { r.policy = "bat"; }) == "sound");
  CHECK(check([](auto& r) { r.user.clear(); }) == "malformed empty_user");
  CHECK(check([](auto& r) { r.user = "123456789"; }) == "too_large id_too_long");
  CHECK(check([](auto& r) { r.tenant = "123456789"; }) == "too_large id_too_long");
  CHECK(check([](auto& r) { r.candidates.clear(); }) == "malformed no_candidates");
  CHECK(check([](auto& r) { r.candidates = {"a", "b", "c", "d"}; }) == "too_large too_many_candidates");
  CHECK(check([](auto& r) { r.candidates = {"a", "b", "a"}; }) == "unprocessable repeated_candidate");
  CHECK(check([](auto& r) { r.policy = "best"; }) == "malformed unknown_policy");
  CHECK(check([](auto& r) { r.policy = "blocks+30:lambda0.5"; }) == "malformed unknown_policy");
  CHECK(check([](auto& r) { r.policy = "all_blocks+30:prototypes"; }) == "malformed no_prototypes");
  CHECK(check([](auto& r) { r.budget_us = -1; }) == "malformed bad_budget");
  CHECK(check([](auto& r) { r.request_timestamp = -1; }) == "malformed bad_timestamp");
  CHECK(check([](auto& r) { r.request_timestamp = 881251100000; }) == "sound");
  CHECK(check([](auto& r) { r.request_timestamp = 1588687728923; }) == "malformed bad_timestamp");
  CHECK(check([](auto& r) { r.user = std::string("a\0", 2); }) == "malformed wrong_type");
  CHECK(check([](auto& r) { r.scenario = 1; }) == "malformed bad_scenario");
  CHECK(check([](auto& r) { r.task = "click"; }) == "malformed unknown_task");
}

TEST_CASE("request check: an option of a newer server is refused, naming the field") {
  const auto ranking = [](std::function<void(RankRequest&)> change) { return verdict(rank(), change, form); };
  CHECK(ranking([](auto& r) { r.features = Freshness::unreadable; }) == "unavailable unknown_option");
  CHECK(ranking([](auto& r) { r.unknown = UnknownCandidates::unreadable; }) == "unavailable unknown_option");
  CHECK(ranking([](auto& r) { r.unknown_user = UnknownUser::unreadable; }) == "unavailable unknown_option");
  CHECK(ranking([](auto& r) { r.arrangement = Arrangement::unreadable; }) == "unavailable unknown_option");
  PromptForm generator = form;
  generator.discriminant = {};
  const auto search = [&](std::function<void(GenerateRequest&)> change) {
    return verdict(GenerateRequest{.user = "ann", .top_k = 2}, change, generator);
  };
  CHECK(search([](auto&) {}) == "sound");
  CHECK(search([](auto& r) { r.normalised = Normalised::unreadable; }) == "unavailable unknown_option");
  CHECK(search([](auto& r) { r.features = Freshness::unreadable; }) == "unavailable unknown_option");
  RankRequest old = rank();
  old.arrangement = Arrangement::unreadable;
  CHECK(validate(old, form, limits)->where == "arrangement");
}

TEST_CASE("request check: a user without a profile is named together with the tenant") {
  const Refusal of_default = user_without_profile("ann", ""), of_acme = user_without_profile("ann", "acme");
  CHECK(of_default.what == "user \"ann\" has no profile");
  CHECK(of_acme.what == "user \"ann\" of tenant \"acme\" has no profile");
  CHECK(of_acme.expected.find("--tenant") != std::string::npos);
  CHECK(of_acme.code == of_default.code);
}

TEST_CASE("request check: a towers model has scenarios and tasks, and scores no labels") {
  PromptForm towers{
      .positions_max = 20, .vocabulary = 100, .arrangements = {Arrangement::towers}, .scenarios = 2};
  towers.tasks = {"click", "like"};
  const auto check = [&](std::function<void(RankRequest&)> change) {
    return verdict(rank(), change, towers);
  };
  CHECK(check([](auto& r) { r.scenario = 1, r.task = "like"; }) == "sound");
  CHECK(check([](auto& r) { r.scenario = 2; }) == "malformed bad_scenario");
  CHECK(check([](auto& r) { r.task = "buy"; }) == "malformed unknown_task");
  CHECK(verdict(score(), std::function<void(ScoreRequest&)>([](auto&) {}), towers) ==
        "unprocessable not_a_scorer");
}

TEST_CASE("request check: a search is within the limit and at least as wide as its results") {
  const PromptForm generator{{1}, {}, {}, {}, 20, 100};
  RequestLimits narrow = limits;
  narrow.width_max = 8;
  const auto check = [&](GenerateRequest request) {
    const auto fault = validate(request, generator, narrow);
    return fault ? std::string(name_of(fault->kind)) + " " + fault->code + " " + fault->where : "sound";
  };
  const GenerateRequest sound{1, "t", "ann"};
  CHECK(check(sound) == "sound");
  CHECK(check({.user = "ann", .top_k = 8, .width = 8}) == "sound");
  CHECK(check({.user = ""}) == "malformed empty_user user");
  CHECK(check({.user = "ann", .width = 9}) == "too_large too_wide width");
  CHECK(check({.user = "ann", .top_k = 9}) == "too_large too_wide top_k");
  CHECK(check({.user = "ann", .top_k = 4, .width = 3}) == "malformed too_narrow width");
  CHECK(check({.user = "ann", .allow = {"a", "b", "c", "d"}}) == "too_large too_many_items allow");
  CHECK(check({.user = "ann", .deny = {"a", "b", "c", "d"}}) == "too_large too_many_items deny");
  CHECK(check({.user = "ann", .budget_us = -1}) == "malformed bad_budget budget_us");
  CHECK(check({.user = "ann", .among_allowed = true, .normalised = Normalised::vocabulary}) ==
        "malformed two_normalisations normalised");
  CHECK(check({.user = "ann", .among_allowed = true, .normalised = Normalised::allowed}) == "sound");
}

TEST_CASE("request check: a completion fits the model's positions and the limits") {
  const PromptForm generator{{1}, {}, {}, {}, 20, 100};
  RequestLimits narrow = limits;
  narrow.width_max = 8;
  narrow.completion_tokens_max = 18;
  const auto check = [&](const std::function<void(CompleteRequest&)>& change) {
    CompleteRequest request{.prompt = {1, 99}, .max_tokens = 18, .n = 8};
    change(request);
    const auto fault = validate(request, generator, narrow);
    return fault ? std::string(name_of(fault->kind)) + " " + fault->code + " " + fault->where : "sound";
  };
  CHECK(check([](auto&) {}) == "sound");
  CHECK(check([](auto& r) { r.beam_width = 8; }) == "sound");
  CHECK(check([](auto& r) { r.tenant = "123456789"; }) == "too_large id_too_long tenant");
  CHECK(check([](auto& r) { r.budget_us = -1; }) == "malformed bad_budget budget_us");
  CHECK(check([](auto& r) { r.prompt.clear(); }) == "malformed no_tokens prompt");
  CHECK(check([](auto& r) { r.prompt[1] = 100; }) == "unprocessable unknown_token prompt[1]");
  CHECK(check([](auto& r) { r.prompt.assign(17, 1); }) == "too_large too_many_tokens prompt");
  CHECK(check([](auto& r) { r.prompt.assign(3, 1); }) == "unprocessable too_long prompt and max_tokens");
  CHECK(check([](auto& r) { r.n = 0; }) == "malformed too_narrow n");
  CHECK(check([](auto& r) { r.n = 9; }) == "too_large too_wide n");
  CHECK(check([](auto& r) { r.max_tokens = 0; }) == "malformed too_narrow max_tokens");
  CHECK(check([](auto& r) { r.max_tokens = 19; }) == "too_large too_wide max_tokens");
  CHECK(check([](auto& r) { r.beam_width = 7; }) == "malformed too_narrow beam_width");
  CHECK(check([](auto& r) { r.beam_width = 9; }) == "too_large too_wide beam_width");
  // The length of identifiers is known only once the catalog is.
  CHECK(check([](auto& r) { r.prompt.assign(3, 1), r.items = true; }) == "sound");
  CHECK(validate(CompleteRequest{.prompt = {1}}, form, narrow)->code == "not_a_generator");
}

TEST_CASE("request check: a model either ranks or generates, and refuses the other") {
  const PromptForm generator{{1}, {}, {}, {}, 20, 100};
  CHECK(validate(rank(), generator, limits)->code == "not_a_ranker");
  CHECK_FALSE(validate(rank(), form, limits).has_value());
  const GenerateRequest generate{1, "t", "ann"};
  CHECK(validate(generate, form, limits)->code == "not_a_generator");
  CHECK_FALSE(validate(generate, generator, limits).has_value());
}

TEST_CASE("request check: a model of next items ranks, and generates if its item table is searched") {
  PromptForm items{.positions_max = 20, .vocabulary = 100, .arrangements = {Arrangement::history}};
  items.next_items = true;
  GenerateRequest generate{1, "t", "ann"};
  CHECK_FALSE(validate(rank(), items, limits).has_value());
  CHECK(validate(generate, items, limits)->code == "not_a_generator");
  CHECK(validate(generate, items, limits)->expected.find("model.tables") != std::string::npos);
  items.searches_items = true;
  CHECK_FALSE(validate(generate, items, limits).has_value());
  CHECK_FALSE(validate(rank(), items, limits).has_value());
  CHECK(validate(CompleteRequest{.prompt = {1}}, items, limits)->code == "not_a_generator");
  generate.request_timestamp = -1;
  CHECK(validate(generate, items, limits)->code == "bad_timestamp");
}

TEST_CASE("request check: a score request keeps to the vocabulary, the positions and the limits") {
  const auto check = [](std::function<void(ScoreRequest&)> change) { return verdict(score(), change, form); };
  CHECK(check([](auto&) {}) == "sound");
  CHECK(check([](auto& r) { r.query.clear(); }) == "sound");
  CHECK(check([](auto& r) { r.items.clear(); }) == "malformed no_items");
  CHECK(check([](auto& r) { r.items.resize(3, {{1}}); }) == "too_large too_many_items");
  CHECK(check([](auto& r) { r.items[1].tokens.clear(); }) == "malformed empty_item");
  CHECK(check([](auto& r) { r.label_tokens.clear(); }) == "malformed no_labels");
  CHECK(check([](auto& r) { r.label_tokens[0] = 100; }) == "unprocessable unknown_token");
  CHECK(check([](auto& r) { r.query[1] = -1; }) == "unprocessable unknown_token");
  CHECK(check([](auto& r) { r.items[0].tokens[0] = 1'000; }) == "unprocessable unknown_token");
  CHECK(check([](auto& r) { r.items[0].tokens.assign(18, 1); }) == "too_large too_many_tokens");
  CHECK(check([](auto& r) { r.items[0].tokens.assign(19, 1); }) == "unprocessable too_long");
}

TEST_CASE("request check: a score request too large for a pass is refused, naming the setting") {
  RequestLimits small = limits;
  small.pass_tokens_max = 5, small.token_bytes = 1 << 20;
  CHECK(validate(score(), form, small) == std::nullopt);
  ScoreRequest request = score();
  request.query.push_back(1);
  const auto fault = validate(request, form, small);
  REQUIRE(fault);
  CHECK(fault->code == "too_much_memory");
  CHECK(fault->what == "6 tokens take 7 MiB of working memory");
  CHECK(fault->expected.find("at most 5 tokens") == 0);
  CHECK(fault->expected.find("inference.memory_max") != std::string::npos);
}

TEST_CASE("request check: a refusal says what is wrong, where, and what was expected") {
  ScoreRequest request = score();
  request.items[1].tokens[1] = 100;
  const auto fault = validate(request, form, limits);
  REQUIRE(fault.has_value());
  CHECK(fault->what == "token 100 is outside the vocabulary");
  CHECK(fault->where == "items[1][1]");
  CHECK(fault->expected == "0..99");
}

TEST_CASE("request check: profiles and items are checked before they are stored") {
  CHECK_FALSE(validate(PutUser{1, "", "ann", {"a"}, {}}, form, limits).has_value());
  CHECK_FALSE(validate(PutUser{1, "", "ann", {}, {}}, form, limits).has_value());  // a new user
  CHECK(validate(PutUser{1, "", "ann", {"a"}, {5}}, form, limits)->code == "ambiguous_history");
  CHECK(validate(PutUser{1, "", "ann", {}, {100}}, form, limits)->code == "unknown_token");
  CHECK_FALSE(validate(PutUser{1, "", "ann", {}, {1, 2, 3, 4}}, form, limits).has_value());
  CHECK(validate(PutUser{1, "", "ann", {}, {1, 2, 3, 100}}, form, limits)->code == "unknown_token");
  CHECK(validate(PutUser{1, "", "ann", {}, {1, 2, 3, 4, 5}}, form, limits)->code == "too_many_events");
  CHECK(validate(DeleteUser{1, "", ""}, form, limits)->code == "empty_user");

  CHECK_FALSE(validate(PutItem{1, "a", "", {5}, 99}, form, limits).has_value());
  CHECK(validate(PutItem{1, "", "", {5}, 99}, form, limits)->code == "empty_item");
  CHECK(validate(PutItem{1, "a", "", {}, 99}, form, limits)->code == "empty_item");
  CHECK(validate(PutItem{1, "a", "", {5}, 100}, form, limits)->where == "identifier");
  CHECK(validate(PutItem{1, "a", "", {5}, -2}, form, limits)->code == "unknown_token");
  CHECK(validate(PutItem{1, "a", "", {5}, no_identifier}, form, limits)->code == "missing_field");
  PromptForm each = form;
  each.discriminant = {};
  each.score = {7};
  CHECK_FALSE(validate(PutItem{1, "a", "", {5}, no_identifier}, each, limits).has_value());
  CHECK(validate(PutItem{1, "a", "", {5}, 100}, each, limits)->code == "unknown_token");
  CHECK_FALSE(validate(PutItem{1, "a", "", std::vector<Token>(16, 5), 9}, form, limits).has_value());
  CHECK(validate(PutItem{1, "a", "", std::vector<Token>(17, 5), 9}, form, limits)->code == "too_long");
  CHECK(validate(DeleteItem{1, ""}, form, limits)->code == "empty_item");
}

}  // namespace request_check_test
}  // namespace troupe::router
