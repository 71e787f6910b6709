#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "router/request/plan_cost.h"
#include "router/request/request.h"
#include "runtime/testing/catalog_test.h"

namespace troupe::router {
namespace generate_request_test {

const PromptForm form{{1}, {}, {}, {}, 32, 100};
const BlockNames names(form, {"model 1", "layout 1"});

Item item_of(const std::string& id, std::vector<Token> tokens) {
  return {id, "the " + id, std::move(tokens), 1, {}};
}
// Items b and a share an identifier, in this order of numbers; so do d and e.
const std::vector<Item> catalog{item_of("b", {10, 20, 30}), item_of("a", {10, 20, 30}),
                                item_of("c", {10, 21, 30}), item_of("d", {11, 20, 31}),
                                item_of("e", {11, 20, 31}), item_of("f", {12, 20, 30})};

// A request with its features; gives its plan and its reply to paths that were found.
struct GenerateBench {
  std::unique_ptr<Request> request;
  std::optional<Refusal> refusal;

  explicit GenerateBench(GenerateRequest asked, std::vector<Token> history = {10, 20, 30, 12, 20, 30},
                         std::uint32_t event = 3, const PromptForm& served = form) {
    asked.user = "ann";
    request = take_generate(asked, policy("bat"));
    const auto all = std::make_shared<const ListedCatalog>(catalog, "catalog 1");
    Profile user{7, history, std::vector<std::uint32_t>(history.size() / event, event)};
    const FindFeatures wanted = *request->features();
    CHECK(wanted.paths);
    refusal =
        request->take(served, {}, {std::make_shared<const Profile>(user), all, all->find_all(wanted.items)});
  }
  Candidate plan(const PromptForm& served = form) const { return request->candidates(served, names).at(0); }
  Search search() const { return plan().plan.search; }
  GenerateReply reply(std::vector<Beam> beams) const {
    return std::get<GenerateReply>(request->reply({.beams = std::move(beams), .model_version = "model 1"}));
  }
  std::string ids(std::vector<Beam> beams) const {
    std::string text;
    for (const GeneratedItem& item : reply(std::move(beams)).items) text += item.id;
    return text;
  }
};
const Beam ab{{10, 20, 30}, -1}, c{{10, 21, 30}, -2}, de{{11, 20, 31}, -3}, f{{12, 20, 30}, -4};

using Paths = std::vector<std::vector<Token>>;
Paths copies(const std::vector<Tokens>& paths) {
  Paths made;
  for (const Tokens& path : paths) made.push_back(path.copy());
  return made;
}

TEST_CASE("generation: the plan is the system prompt and the history, and the search begins after it") {
  const Candidate made = GenerateBench({.top_k = 3, .width = 9}).plan();
  REQUIRE(made.plan.segments.size() == 2);
  CHECK(made.plan.segments[1].tokens == std::vector<Token>{10, 20, 30, 12, 20, 30});
  CHECK(made.plan.segments[1].start == 1);
  CHECK(made.blocks[0].name == names.system());
  CHECK(made.blocks[1].name == names.user("", made.plan.segments[1].tokens));
  CHECK(made.plan.search == Search{.segment = 1, .width = 9, .results = 3});
  CHECK(made.plan.readouts.empty());
  CHECK(GenerateBench({.among_allowed = true}).search().normalised == Search::Normalisation::allowed);
  CHECK(GenerateBench({}, {}).search().segment == 0);  // a user without a history
}

TEST_CASE("generation: probabilities are normalised as the request says, else as the model's form says") {
  using enum Search::Normalisation;
  PromptForm declares = form;
  declares.normalised = Normalised::allowed;
  const auto found = [](const PromptForm& served, GenerateRequest asked) {
    return GenerateBench(std::move(asked), {10, 20, 30}, 3, served).plan(served).plan.search.normalised;
  };
  CHECK(found(form, {}) == vocabulary);
  CHECK(found(form, {.normalised = Normalised::allowed}) == allowed);
  CHECK(found(form, {.among_allowed = true}) == allowed);
  CHECK(found(declares, {}) == allowed);
  CHECK(found(declares, {.normalised = Normalised::vocabulary}) == vocabulary);
}

TEST_CASE("generation: a long history keeps the newest events that leave space for a path") {
  std::vector<Token> history;
  for (Token event = 0; event < 12; ++event) history.insert(history.end(), {10, 20, 30 + event});
  const GenerateBench asked({}, history);
  CHECK(asked.plan().plan.segments[1].tokens.size() == 27);  // of 32 - 1 - 3
  CHECK(asked.reply({}).history_cut == 3);
}

TEST_CASE("generation: items that share an identifier are returned by id, up to the requested number") {
  CHECK(GenerateBench({.top_k = 4}).ids({ab, c, de}) == "abcd");
  const GenerateReply whole = GenerateBench({.top_k = 4}).reply({ab, c, de});
  CHECK(whole.reason.empty());
  CHECK(whole.items[1].title == "the b");
  CHECK(whole.items[1].tokens == ab.path);
  CHECK(whole.items[1].log_probability == -1);
  CHECK(whole.catalog_version == "catalog 1");
  Beam reported = c;
  reported.by_token = {-0.5, -1.5};
  const GenerateBench with_logprobs({.logprobs = true});
  CHECK((with_logprobs.search().by_token && !GenerateBench({}).search().by_token));
  CHECK(with_logprobs.reply({reported}).items[0].by_token == reported.by_token);
  const GenerateReply fewer = GenerateBench({.top_k = 7}).reply({ab, c, de, f});
  CHECK(fewer.items.size() == 6);
  CHECK(fewer.reason == "only 6 items of the catalog may be returned; asked for 7");
}

TEST_CASE("generation: a path is denied only if all its items are") {
  const GenerateBench one({.top_k = 5, .deny = {"a", "c", "gone"}});
  CHECK(copies(one.search().denied) == Paths{c.path});
  CHECK(one.ids({ab, de}) == "bde");
  const GenerateBench both({.deny = {"a", "b"}});
  CHECK(copies(both.search().denied) == Paths{ab.path});
  CHECK(both.request->validate_beams(std::vector{ab}) ==
        "path 0 is not an identifier of an item that may be returned");
}

TEST_CASE("generation: an allow list is searched alone, without denied or seen items") {
  const GenerateBench asked({.top_k = 5, .allow = {"e", "b", "e", "f"}, .deny = {"d"}});
  CHECK(copies(asked.search().allowed) == Paths{ab.path, de.path, f.path});
  CHECK(asked.search().denied.empty());
  CHECK(asked.ids({de, ab}) == "eb");
  CHECK(copies(GenerateBench({.exclude_seen = true, .allow = {"a", "c"}}).search().allowed) == Paths{c.path});
  CHECK(GenerateBench({.allow = {"a", "?"}}).refusal->where == "allow[1]");
  CHECK(GenerateBench({.allow = {"a"}, .deny = {"a"}}).refusal->code == "nothing_allowed");
  CHECK(GenerateBench({.exclude_seen = true, .allow = {"a", "b"}}).refusal->code == "nothing_allowed");
}

TEST_CASE("generation: seen items are found in a history of items and of tokens") {
  CHECK(copies(GenerateBench({.exclude_seen = true}).search().denied) == Paths{ab.path, f.path});
  CHECK(copies(GenerateBench({.exclude_seen = true}, {10, 20, 10, 20, 30, 12}, 1).search().denied) ==
        Paths{ab.path});
  CHECK(GenerateBench({}).search().denied.empty());
}

TEST_CASE("generation: a worker's paths must be identifiers of the catalog, each once") {
  const GenerateBench asked({});
  CHECK(asked.request->validate_beams(std::vector{ab, c}).empty());
  CHECK(asked.request->validate_beams(std::vector{ab, Beam{{10, 20}, -2}}) ==
        "path 1 is not an identifier of an item that may be returned");
  CHECK(asked.request->validate_beams(std::vector{Beam{{99}, -2}}) != "");
  CHECK(asked.request->validate_beams(std::vector{ab, c, ab}) == "path 2 was found twice");
}

// A model of next items over a catalog whose items are rows 1 to 5; "e" and "z" share a row.
struct NextItemBench {
  PromptForm form{.positions_max = 6, .vocabulary = 100, .arrangements = {Arrangement::history}};
  std::vector<Item> items{item_of("a", {1}), item_of("b", {2}), item_of("c", {3}), item_of("z", {5}),
                          item_of("e", {5})};
  std::unique_ptr<Request> request;
  std::optional<Refusal> refusal;

  explicit NextItemBench(GenerateRequest asked, std::vector<Token> history = {1, 9, 9, 9, 9, 9, 2}) {
    form.next_items = form.searches_items = true;
    form.temperature = 0.05;
    form.token_features = 2;
    asked.user = "ann";
    asked.request_timestamp = 500;
    request = take_generate(asked, policy("planner"));
    const auto all = std::make_shared<const ListedCatalog>(items, "catalog 1");
    Profile user{7, history, std::vector<std::uint32_t>(history.size(), 1), {{"timestamps", {}}}};
    for (std::size_t i = 0; i < history.size(); ++i)
      user.features[0].values.push_back(static_cast<std::int64_t>(10 * i));
    const FindFeatures wanted = *request->features();
    refusal =
        request->take(form, {}, {std::make_shared<const Profile>(user), all, all->find_all(wanted.items)});
  }
  Candidate plan() const { return request->candidates(form, BlockNames(form, {"m", "l"})).at(0); }
};

TEST_CASE("generation: a model of next items searches its table behind the newest events and their times") {
  const NextItemBench bench({.top_k = 4});
  REQUIRE_FALSE(bench.refusal);
  const Candidate made = bench.plan();
  REQUIRE(made.plan.segments.size() == 2);
  CHECK(made.plan.segments[0].tokens == std::vector<Token>{9, 9, 9, 9});  // of five positions
  CHECK(made.plan.segments[1].tokens == std::vector<Token>{2});
  CHECK(made.plan.segments[1].features == std::vector<std::int64_t>{60, 500});
  CHECK(made.blocks[0].name);
  CHECK_FALSE(made.blocks[1].name);
  CHECK(made.plan.readouts.empty());
  Search wanted{.segment = 1, .width = 4, .results = 4};
  wanted.of_items = true;
  CHECK(made.plan.search == wanted);
  CHECK(NextItemBench({.top_k = 2, .width = 30}).plan().plan.search.width == 30);
}

TEST_CASE(
    "generation: a model of next items excludes all seen and denied items, and replies with similarities") {
  const NextItemBench bench({.top_k = 2, .exclude_seen = true, .deny = {"c", "z"}});
  // "a" was seen, too, though the model no longer reads that event. "e" shares the row of "z".
  CHECK(copies(bench.plan().plan.search.denied) == Paths{{1}, {2}, {3}});
  Beam found{{5}, -0.25, {}, 4};
  const auto reply = std::get<GenerateReply>(bench.request->reply({.beams = {found}}));
  REQUIRE(reply.items.size() == 1);
  CHECK(reply.items[0].id == "e");
  CHECK(reply.items[0].score == 4 * 0.05);
  CHECK(reply.items[0].log_probability == -0.25);
  CHECK(reply.reason == "only 1 items of the catalog may be returned; asked for 2");
  CHECK(reply.history_cut == 2);
  CHECK(GenerateBench({}).reply({ab}).items[0].score == -1);  // a generator's score is its log-probability
}

TEST_CASE("generation: a model of next items refuses a user without events") {
  const NextItemBench bench({}, {});
  REQUIRE(bench.refusal);
  CHECK(bench.refusal->code == "empty_history");
}

TEST_CASE("generation: the search counts in the request's cost") {
  const placement::UnitCosts costs{.token_operations = 1, .pair_operations = 0.1};
  const auto work = [&](std::uint32_t width) {
    return PlanCost(costs, GenerateBench({.top_k = 1, .width = width}).plan(), 0).nothing_held().operations;
  };
  CHECK(work(100) - work(50) > 2 * 50 * (1 + 0.1 * 7));
}

}  // namespace generate_request_test
}  // namespace troupe::router
