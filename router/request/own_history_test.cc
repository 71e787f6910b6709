#include "router/request/own_history.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/request/request.h"
#include "router/request/request_check.h"
#include "runtime/actor/user_home.h"
#include "runtime/features/feature_rules.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace own_history_test {

using Names = std::vector<std::string>;

std::vector<Item> seven_items() {
  std::vector<Item> items;
  for (Token n = 0; n < 7; ++n) items.push_back({std::string(1, static_cast<char>('a' + n)), "", {n}, n, {}});
  return items;
}
const CatalogPointer catalog = std::make_shared<const ListedCatalog>(seven_items(), "catalog 1");
const FeatureLimits limits{.vocabulary = 100,
                           .item_tokens_max = 4,
                           .history_events_max = 10,
                           .event_features = {{.name = "timestamps", .ascending = true},
                                              {.name = "actions", .least = 0, .most = 5}}};

PromptForm hstu() {
  PromptForm form{.positions_max = 200, .vocabulary = 100, .arrangements = {Arrangement::history}};
  form.token_features = 3;
  form.history_part = 2;
  form.state = 2;
  form.tasks = {"buy"};
  return form;
}
PromptForm next_items() {
  PromptForm form = hstu();
  form.tasks.clear();
  form.next_items = form.searches_items = true;
  form.temperature = 0.05;
  return form;
}

const Names events{"a", "b", "c", "d", "e"};
const std::vector<Feature> features_of_events{{"timestamps", {10, 20, 30, 40, 50}},
                                              {"actions", {1, 0, 2, 3, 1}}};

template <class M>
M with_history(M request) {
  request.tenant = "t";
  request.history = events;
  request.event_features = features_of_events;
  request.own_history = true;
  request.request_timestamp = 90;
  return request;
}
template <class M>
M of_user(M request) {
  request.tenant = "t";
  request.user = "ann";
  request.request_timestamp = 90;
  return request;
}

// Answers a request's question as a feature store would.
JobResult found(const Request& request, ProfilePointer stored) {
  return find_items(*request.features(), std::move(stored), catalog, limits);
}
std::optional<Refusal> taken(Request& request, const PromptForm& form, ProfilePointer stored = nullptr,
                             RequestLimits allowed = {}) {
  const JobResult result = found(request, std::move(stored));
  if (const auto* refusal = std::get_if<Refusal>(&result)) return *refusal;
  return request.take(form, allowed, std::get<Features>(result));
}
ProfilePointer stored_profile() {
  StoredProfile stored;
  REQUIRE_FALSE(
      resolve({.user = "ann", .history = events, .features = features_of_events}, limits, *catalog, stored));
  stored.profile.version = 7;
  return std::make_shared<const Profile>(stored.profile);
}
std::string fault(const std::optional<Refusal>& refusal) {
  return refusal ? refusal->code + " " + refusal->where : "";
}

// Compares the plans of a request that names a stored user and of one that has the same history.
void check_same_blocks(std::unique_ptr<Request> stored, std::unique_ptr<Request> own,
                       const PromptForm& form) {
  REQUIRE_FALSE(taken(*stored, form, stored_profile()));
  REQUIRE_FALSE(taken(*own, form));
  CHECK(own->profile_version() == 0);
  CHECK(own->named_user().empty());
  const BlockNames names(form, {"model 1", "layout 1"});
  const Candidate one = stored->candidates(form, names).at(0), other = own->candidates(form, names).at(0);
  CHECK(one.plan == other.plan);
  REQUIRE(one.blocks.size() == other.blocks.size());
  std::size_t named = 0;
  for (std::size_t i = 0; i < one.blocks.size(); ++i) {
    CHECK(one.blocks[i].name == other.blocks[i].name);
    named += one.blocks[i].name.has_value();
    if (one.blocks[i].name) CHECK(other.blocks[i].owner == own->user());
  }
  CHECK(named == 2);
  CHECK(own->user() != stored->user());
  CHECK(own->home() == owner_hash(own->user()));
}

TEST_CASE("own history: its blocks have the names of a stored user's with the same events") {
  check_same_blocks(take_rank(of_user(RankRequest{.candidates = {"f"}}), policy("planner")),
                    take_rank(with_history(RankRequest{.candidates = {"f"}}), policy("planner")), hstu());
  check_same_blocks(take_generate(of_user(GenerateRequest{.top_k = 2}), policy("planner")),
                    take_generate(with_history(GenerateRequest{.top_k = 2}), policy("planner")),
                    next_items());
  check_same_blocks(take_embed(of_user(EmbedRequest{}), policy("planner")),
                    take_embed(with_history(EmbedRequest{}), policy("planner")), hstu());
}

TEST_CASE("own history: its events obey the rules of a stored user's, and are refused by field") {
  const auto refused = [](const auto& change) {
    RankRequest request = with_history(RankRequest{.candidates = {"f"}});
    change(request);
    return fault(taken(*take_rank(std::move(request), policy("planner")), hstu()));
  };
  CHECK(refused([](RankRequest&) {}) == "");
  CHECK(refused([](RankRequest& r) { r.history[3] = "none"; }) == "unknown_item history[3]");
  CHECK(refused([](RankRequest& r) { r.event_features.pop_back(); }) == "missing_feature actions");
  CHECK(refused([](RankRequest& r) { r.event_features[0].name = "ages"; }) == "unknown_feature ages");
  CHECK(refused([](RankRequest& r) { r.event_features[0].values.pop_back(); }) == "bad_feature timestamps");
  CHECK(refused([](RankRequest& r) { r.event_features[0].values[4] = 39; }) == "bad_feature timestamps[4]");
  CHECK(refused([](RankRequest& r) { r.event_features[1].values[2] = 6; }) == "bad_feature actions[2]");
  CHECK(refused([](RankRequest& r) { r.candidates = {"none"}; }) == "unknown_item candidates[0]");
}

TEST_CASE("own history: a history of tokens is one event a token") {
  RankRequest request = with_history(RankRequest{.candidates = {"f"}});
  request.history.clear();
  request.history_tokens = {0, 1, 2, 3, 4};
  const auto own = take_rank(std::move(request), policy("planner"));
  REQUIRE_FALSE(taken(*own, hstu()));
  const PromptForm form = hstu();
  const Candidate made = own->candidates(form, BlockNames(form, {"m", "l"})).at(0);
  CHECK(made.plan.segments[0].tokens == Tokens{0, 1});
  CHECK(made.plan.segments[0].features == std::vector<std::int64_t>{10, 20, 1, 20, 30, 0});
}

TEST_CASE("own history: an empty one is a user without events, which models of next items refuse") {
  RankRequest empty{.candidates = {"f"}, .request_timestamp = 90, .own_history = true};
  CHECK_FALSE(validate(empty, hstu(), {}));
  const auto ranked = take_rank(RankRequest(empty), policy("planner"));
  REQUIRE_FALSE(taken(*ranked, hstu()));
  CHECK(ranked->situation().user_tokens == 0);
  const auto reply = std::get<RankReply>(ranked->reply({.rows = {{{1}}}, .plan = "history"}));
  CHECK(reply.unknown_user == "");  // nobody asked for a stored user
  CHECK(fault(taken(*take_rank(RankRequest(empty), policy("planner")), next_items())) ==
        "empty_history history");
  const GenerateRequest generate{.own_history = true};
  CHECK_FALSE(validate(generate, next_items(), {}));
  CHECK(fault(taken(*take_generate(GenerateRequest(generate), policy("planner")), next_items())) ==
        "empty_history history");
}

TEST_CASE("own history: a request names a user or has a history, not both, and features need a history") {
  const auto verdict = [](const auto& change) {
    RankRequest request = with_history(RankRequest{.candidates = {"f"}});
    change(request);
    return fault(validate(request, hstu(), {.history_max = 5}));
  };
  CHECK(verdict([](RankRequest&) {}) == "");
  CHECK(verdict([](RankRequest& r) { r.user = "ann"; }) == "ambiguous_history history");
  CHECK(verdict([](RankRequest& r) { r.history_tokens = {1}; }) == "ambiguous_history history");
  CHECK(verdict([](RankRequest& r) { r.history.push_back("a"); }) == "too_many_events history");
  CHECK(verdict([](RankRequest& r) { r.history = {}, r.history_tokens = {1, 2, 3, 4, 5, 6}; }) ==
        "too_many_events tokens");
  CHECK(verdict([](RankRequest& r) { r.history = {}, r.history_tokens = {100}; }) ==
        "unknown_token tokens[0]");
  CHECK(verdict([](RankRequest& r) { r.history = {}, r.own_history = false, r.user = "ann"; }) ==
        "missing_field history");
  CHECK(verdict([](RankRequest& r) { r.history = {}, r.event_features = {}, r.own_history = false; }) ==
        "empty_user user");
}

TEST_CASE(
    "unknown user: by request or by setting it is answered as one without events, which the reply says") {
  const RequestLimits cold{.unknown_user = UnknownUser::cold};
  const auto ranked = [](UnknownUser unknown, const RequestLimits& allowed) {
    const auto request =
        take_rank(of_user(RankRequest{.candidates = {"f"}, .unknown_user = unknown}), policy("planner"));
    if (const auto refusal = taken(*request, hstu(), nullptr, allowed)) return refusal->code;
    return std::get<RankReply>(request->reply({.rows = {{{1}}}, .plan = "history"})).unknown_user;
  };
  CHECK(ranked(UnknownUser::configured, {}) == "unknown_user");
  CHECK(ranked(UnknownUser::configured, cold) == "cold");
  CHECK(ranked(UnknownUser::cold, {}) == "cold");
  CHECK(ranked(UnknownUser::refuse, cold) == "unknown_user");
  const auto known = take_rank(of_user(RankRequest{.candidates = {"f"}}), policy("planner"));
  REQUIRE_FALSE(taken(*known, hstu(), stored_profile(), cold));
  CHECK(std::get<RankReply>(known->reply({.rows = {{{1}}}, .plan = "history"})).unknown_user == "");
  const auto next =
      take_generate(of_user(GenerateRequest{.unknown_user = UnknownUser::cold}), policy("planner"));
  CHECK(fault(taken(*next, next_items())) == "empty_history user");
}

TEST_CASE("own history: its owner stays while it grows, differs from all users, and depends on its start") {
  GivenHistory given{.history = {"a", "b", "c", "d", "e", "f", "g", "a"}};
  const std::string name = own_history_user(given);
  given.history.push_back("b");
  CHECK(own_history_user(given) == name);
  CHECK(name.front() == '\0');
  given.history[0] = "b";
  CHECK(own_history_user(given) != name);
  CHECK(own_history_user({.tokens = {1, 2}}) != own_history_user({.tokens = {12}}));
  CHECK(own_history_user({.history = {"a"}, .features = {{"timestamps", {5}}}}) !=
        own_history_user({.history = {"a"}, .features = {{"timestamps", {6}}}}));
}

TEST_CASE("own history: of an older sender it is known by its events") {
  CHECK(has_own_history(RankRequest{.history = {"a"}}));
  CHECK(has_own_history(RankRequest{.own_history = true}));
  CHECK_FALSE(has_own_history(RankRequest{.user = "ann"}));
}

}  // namespace own_history_test
}  // namespace troupe::router
