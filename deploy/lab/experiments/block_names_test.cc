// Tests that a simulated node and a served one look up the same blocks for the same request, and compute the
// same ones ahead, for every family of models, every form and every policy. The simulated names are those in
// the messages of a simulated cluster. The served names come from what a node's process does with the same
// directory: description of the model, configuration of its router, feature store, plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "deploy/data/dataset.h"
#include "deploy/data/request_trace.h"
#include "deploy/lab/experiments/experiment.h"
#include "deploy/lab/testing/small_generator_test.h"
#include "deploy/lab/what_if/deployment_input.h"
#include "deploy/models/engine.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/features.h"
#include "deploy/node/prompt_file.h"
#include "kernels/checkpoint/hf_config.h"
#include "kernels/climber/climber_config.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/small_hstu_test.h"
#include "kernels/testing/test_folder.h"
#include "placement/cost/device_profiles.h"
#include "router/request/allowed_plans.h"
#include "router/request/item_block.h"
#include "router/request/request.h"
#include "runtime/features/store_features.h"
#include "sim/cluster/clients.h"
#include "sim/ports/world_catalog.h"

using namespace troupe;
using namespace troupe::deploy;

namespace block_names_test {

using Names = std::set<std::string>;

struct Blocks {
  Names looked_up, precomputed;
};

// ---- a served node ----

// Returns the names that the plans of this request ask the index for.
Names looked_up_when_served(const router::RouterConfig& c, Message request, const Features& features) {
  const router::RequestKind* kind = router::find_kind(request);
  REQUIRE(kind);
  const auto taken = kind->take(std::move(request), c.policy);
  REQUIRE_FALSE(taken->validate(c.form, c.limits));
  const auto refusal = taken->take(c.form, c.limits, features);
  REQUIRE_MESSAGE(!refusal, refusal->what);
  Names names;
  if (taken->policy() && !(*taken->policy())->reuses) return names;  // such requests ask for nothing
  for (const router::Candidate& plan : taken->candidates(c.form, router::BlockNames(c.form, c.names)))
    for (const SegmentBlock& block : plan.blocks)
      if (router::is_asked_for(block)) names.insert(to_hex(*block.name));
  return names;
}

Names precomputed_when_served(const router::RouterConfig& c, const Catalog& catalog) {
  Names names;
  const router::ItemBlockKind kind = c.precompute.blocks;
  if (kind == router::ItemBlockKind::none) return names;
  const router::BlockNames of(c.form, c.names);
  for (ItemNumber at = catalog.next(0); at != no_item; at = catalog.next(at + 1)) {
    const std::vector<Token> tokens = router::item_block_tokens(kind, c.form, catalog.item(at).tokens);
    names.insert(to_hex(router::item_block_name(kind, c.form, of, tokens)));
  }
  return names;
}

// ---- a simulated node ----

// Records what the routers of a simulated cluster ask for and compute ahead.
class BlockRecorder {
 public:
  explicit BlockRecorder(const sim::Scenario& scenario)
      : cluster_(scenario, violations_), clients_(cluster_, violations_) {
    cluster_.host().watch_sends(
        [this](Instant, Address from, Address, const Message& message) { note(from, message); });
  }

  // Precomputes, then sends one request.
  Blocks run(TracedRequests requests) {
    cluster_.start();
    cluster_.host().run_until(cluster_.now() + Duration{2'000'000});
    for (int tries = 0; cluster_.works_in_background() && tries < 1'000; ++tries)
      cluster_.host().run_until(cluster_.now() + Duration{100'000});
    clients_.run_closed_loop(
        [requests = std::move(requests), sent = false](TracedRequest& request) mutable {
          return !std::exchange(sent, true) && requests(request);
        },
        1);
    cluster_.host().run_until(cluster_.now() + Duration{2'000'000});
    CHECK(clients_.tally().answered == 1);
    for (const sim::Violation& violation : violations_.kept()) FAIL_CHECK(violation.what);
    return blocks_;
  }

 private:
  void note(Address from, const Message& message) {
    if (from.role != Role::router) return;
    if (const auto* lookup = std::get_if<LookupBlocks>(&message); lookup && lookup->count_access)
      for (const BlockQuery& block : lookup->blocks) blocks_.looked_up.insert(to_hex(block.name));
    const auto* chunk = std::get_if<Execute>(&message);
    if (!chunk || chunk->priority != Priority::background) return;
    for (const SegmentBlock& block : chunk->blocks)
      if (router::is_asked_for(block)) blocks_.precomputed.insert(to_hex(*block.name));
  }

  sim::Violations violations_;
  sim::Cluster cluster_;
  sim::Clients clients_;
  Blocks blocks_;
};

// ---- a deployment ----

struct Deployment {
  Config config;
  std::filesystem::path data;
  TracedRequest request;
  kernels::TestFolder folder;  // of the trace, and of catalog and model where they are written
};

DeploymentInput world_of(const Deployment& of) {
  const std::filesystem::path trace = of.folder.path() / "t.jsonl";
  TraceWriter writer(trace, "");
  writer.write(of.request);
  writer.close();
  return {.config = of.config,
          .data = of.data,
          .trace = trace,
          .in_flight = 1,
          .device = placement::find_device("cpu")};
}

// A served model with its catalog, and one user with the request's events.
class ServedBlocks {
 public:
  explicit ServedBlocks(const Deployment& of) : user_(of.request.user), store_(folder_.path()) {
    model_.config = of.config;
    describe_model(model_, all_families());
    model_.names = {"as-served", layout_version(of.config)};
    config_ = router_config(model_, NodeRoles{});
    const router::BlockNames names(config_.form, config_.names);
    features_ = std::make_unique<RocksFeaturePort>(
        store_, feature_limits(of.config.router, model_.facts),
        [names](std::span<const Token> tokens) { return names.item(tokens); });
    const kernels::Vocabulary vocabulary =
        model_.facts.items_are_tokens() ? names_of_items(model_.facts) : model_.vocabulary;
    features_->import_items(read_items(of.data, vocabulary));
    PutUser user{0, "", of.request.user, of.request.events, {}};
    for (const EventFeature& feature : model_.facts.event_features) {
      user.features.push_back({feature.name, {}});
      for (std::size_t i = 0; i < user.history.size(); ++i)
        user.features.back().values.push_back(feature.ascending ? static_cast<std::int64_t>(i) : 0);
    }
    features_->import_users({&user, 1});
  }

  Blocks blocks(const TracedRequest& asked) {
    const JobResult found =
        features_->run(FindFeatures{.user = user_, .items = asked.candidates, .paths = asked.generates}, 0);
    REQUIRE(std::holds_alternative<Features>(found));
    const Message request =
        asked.generates ? Message(GenerateRequest{.id = 1, .user = user_})
                        : Message(RankRequest{.id = 1, .user = user_, .candidates = asked.candidates});
    return {looked_up_when_served(config_, request, std::get<Features>(found)),
            precomputed_when_served(config_, *features_->present_catalog())};
  }

 private:
  kernels::TestFolder folder_;
  std::string user_;
  Store store_;
  ServedModel model_;
  router::RouterConfig config_;
  std::unique_ptr<RocksFeaturePort> features_;
};

// If anything is computed ahead, it has the block of each candidate that the request looks up.
void check_same(const Blocks& simulated, const Blocks& served, std::size_t candidates) {
  CHECK(simulated.looked_up == served.looked_up);
  CHECK(simulated.precomputed == served.precomputed);
  const auto found = std::ranges::count_if(
      simulated.looked_up, [&](const std::string& name) { return simulated.precomputed.contains(name); });
  if (!simulated.precomputed.empty()) CHECK(static_cast<std::size_t>(found) == candidates);
}

constexpr const char* policies[] = {"recompute",
                                    "user",
                                    "item",
                                    "item+25",
                                    "larger",
                                    "bat",
                                    "bat+30:tail",
                                    "planner",
                                    "causal",
                                    "blocks+30",
                                    "all_blocks+30:attention"};

// Compares both sides under each policy that the form allows, and checks that both refuse the others. Returns
// how many policies were compared.
int compare_policies(Deployment& of) {
  int compared = 0;
  for (const char* policy : policies)
    for (const double approximate : {0.0, 0.5}) {
      if (approximate > 0 && policy != std::string_view("planner")) continue;
      CAPTURE(policy);
      CAPTURE(approximate);
      of.config.router.policy = policy;
      of.config.router.approximate = approximate;
      std::optional<ServedBlocks> served;
      try {
        served.emplace(of);
      } catch (const ConfigError&) {
        CHECK_THROWS_AS(deployment_options(world_of(of)), ConfigError);
        continue;
      }
      const sim::DeploymentOptions options = deployment_options(world_of(of));
      check_same(BlockRecorder(options.scenario).run(options.requests), served->blocks(of.request),
                 of.request.candidates.size());
      ++compared;
    }
  return compared;
}

// The demo's ranker with another form, and the first items of its catalog.
void set_demo(Deployment& of, const std::vector<std::string>& arrangements,
              const std::vector<std::string>& interchangeable) {
  const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";
  nlohmann::json form = nlohmann::json::parse(std::ifstream(demo / "model" / "prompt.json"));
  form["arrangements"] = arrangements;
  form.erase("interchangeable");
  if (!interchangeable.empty()) form["interchangeable"] = interchangeable;
  of.folder.write("form.json", form.dump());
  of.config.set("model.directory", (demo / "model").string());
  of.config.set("model.prompt", (of.folder.path() / "form.json").string());
  std::ifstream items(demo / "world" / "items.jsonl");
  std::string line, text;
  for (int i = 0; i < 40 && std::getline(items, line); ++i) text += line + "\n";
  of.folder.write("items.jsonl", text);
  of.data = of.folder.path();
  of.request = {.user = "u",
                .profile = 1,
                .events = {"camp-0003", "camp-0004", "camp-0003"},
                .candidates = {"camp-0001", "camp-0002", "camp-0007"}};
}

// A ranker of the research's text form: marked events and candidates, each scored behind its own tokens.
void set_text_ranker(Deployment& of, const std::string& arrangements) {
  kernels::DecoderConfig shape;
  shape.layers = 2, shape.hidden = 16, shape.heads = 2, shape.kv_heads = 1, shape.head_dim = 8;
  shape.intermediate = 24, shape.vocabulary = 64, shape.positions_max = 96;
  shape.qkv_bias = shape.tied_embeddings = true;
  of.folder.write("config.json", kernels::config_text(shape, kernels::StoredAs::f32));
  of.folder.write("prompt.json",
                  R"({"instruction":[1,2,3],"history_item":[4,"{words}"],"candidate":[5,6,"{words}",7],)"
                  R"("read_at":7,"yes":8,"no":9,"max_history":2)" +
                      arrangements + "}");
  std::string items;
  for (int i = 0; i < 9; ++i)
    items += R"({"id":"x)" + std::to_string(i) + R"(","title":"","tokens":[)" + std::to_string(20 + i) + "," +
             std::to_string(40 + i) + R"(],"identifier":)" + std::to_string(20 + i) + "}\n";
  of.folder.write("items.jsonl", items);
  of.config.set("model.directory", of.folder.path().string());
  of.data = of.folder.path();
  of.request = {.user = "u", .profile = 1, .events = {"x1", "x2", "x3"}, .candidates = {"x4", "x5", "x6"}};
}

// A model whose tokens are items.
void set_items_are_tokens(Deployment& of, const std::string& config_json) {
  of.folder.write("config.json", config_json);
  of.folder.write("items.tsv", "item_id\n1\n2\n3\n4\n5\n6\n");
  of.config.set("model.directory", of.folder.path().string());
  of.config.set("router.history_part", "2");
  of.data = of.folder.path();
  of.request = {.user = "u", .profile = 1, .events = {"1", "2", "3", "4", "2"}, .candidates = {"5", "6"}};
}

// ---- a published shape ----

Experiment small_experiment(const std::string& policy, std::vector<std::string> arrangements,
                            std::vector<std::string> interchangeable) {
  Experiment e;
  e.nodes = 1;
  e.memory_gb = 1;
  e.users = 20;
  e.items = 40;
  e.scale = 1;
  e.candidates = 5;
  e.user_tokens = 40;
  e.user_sigma = 0.3;
  e.user_tokens_max = 100;
  e.event_tokens = 5;
  e.known_events = 7;
  e.known_share = 0.8;
  e.in_flight = 1;
  e.policy = policy;
  e.arrangements = std::move(arrangements);
  e.interchangeable = std::move(interchangeable);
  return e;
}

// Returns what a node would do whose model directory has a prompt.json with these arrangements.
Blocks served_instead(const Experiment& e, const sim::Scenario& scenario, const TracedRequest& asked) {
  const kernels::TestFolder folder;
  nlohmann::json form{{"system", nlohmann::json::array({1, 2, 3, 4})},
                      {"user", nlohmann::json::array({5, 6})},
                      {"instruction", nlohmann::json::array({7, 8})},
                      {"discriminant", nlohmann::json::array({9})},
                      {"arrangements", e.arrangements}};
  if (!e.interchangeable.empty()) form["interchangeable"] = e.interchangeable;
  folder.write("prompt.json", form.dump());
  ServedModel model;
  model.config.router.policy = e.policy;
  model.config.router.approximate = e.approximate;
  model.facts.limits = {.vocabulary = 5'000, .positions_max = 4'196};
  model.facts.shape = scenario.hardware->shape;
  model.prompt = read_prompt_form(folder.path(), std::nullopt, model.facts, model.vocabulary);
  model.names = {sim::Cluster::models[0], "toy pages of " + std::to_string(scenario.page_tokens)};
  const router::RouterConfig c = router_config(model, NodeRoles{});
  const sim::WorldData world(sim::world_options(scenario));
  const router::BlockNames names(c.form, c.names);
  sim::WorldCatalogs catalogs(
      world, [&](const std::string&, std::span<const Token> tokens) { return names.item(tokens); }, 1'000);
  Features features{.user = std::make_shared<const Profile>(world.profile("", asked.user).value()),
                    .catalog = catalogs.at(world.present(), c.names.model_version)};
  features.items = features.catalog->find_all(asked.candidates);
  return {looked_up_when_served(c, RankRequest{.id = 1, .user = asked.user, .candidates = asked.candidates},
                                features),
          precomputed_when_served(c, *features.catalog)};
}

TEST_SUITE("block names") {
  TEST_CASE("block names: a simulated ranker with a discriminant looks up what a served one does") {
    for (const auto& [arrangements, interchangeable] :
         {std::pair{std::vector<std::string>{"causal"}, std::vector<std::string>{}},
          {{"candidates_apart", "causal"}, {}},
          {{"item_first", "user_first", "causal"}, {"item_first", "user_first"}},
          {{"causal", "item_first", "user_first"}, {"causal", "item_first", "user_first"}}}) {
      CAPTURE(arrangements.front());
      Deployment of;
      set_demo(of, arrangements, interchangeable);
      CHECK(compare_policies(of) >= 3);
    }
  }

  TEST_CASE("block names: a simulated ranker that scores each candidate looks up what a served one does") {
    for (const char* arrangements : {"", R"(,"arrangements":["causal"])",
                                     R"(,"arrangements":["causal","candidates_apart"],)"
                                     R"("interchangeable":["causal","candidates_apart"])",
                                     R"(,"arrangements":["item_first","user_first","causal"],)"
                                     R"("interchangeable":["item_first","user_first"])"}) {
      CAPTURE(arrangements);
      Deployment of;
      set_text_ranker(of, arrangements);
      CHECK(compare_policies(of) >= 3);
    }
  }

  TEST_CASE("block names: a simulated generator looks up what a served one does") {
    const SmallGenerator generator;
    Deployment of;
    of.config.set("model.directory", generator.folder().path().string());
    of.config.set("router.history_part", "2");
    of.data = generator.folder().path();
    of.request = {.user = "u", .profile = 1, .events = {"0", "1"}, .generates = true};
    CHECK(compare_policies(of) >= 3);
  }

  TEST_CASE("block names: simulated models whose tokens are items look up what served ones do") {
    kernels::ClimberConfig climber = kernels::small_climber_config();
    climber.towers = {{kernels::ClimberStrategy::recent, 12}, {kernels::ClimberStrategy::recent, 3}};
    for (const std::string& text : {kernels::small_hstu(2), kernels::config_text(climber)}) {
      CAPTURE(text);
      Deployment of;
      set_items_are_tokens(of, text);
      CHECK(compare_policies(of) >= 2);
    }
  }

  TEST_CASE("block names: an experiment's cluster looks up what a node with its form would") {
    const std::vector<std::string> prefixes{"item_first", "user_first"}, plain{"causal"},
        all{"item_first", "user_first", "causal"};
    for (const auto& [policy, arrangements, interchangeable] :
         {std::tuple{"user", prefixes, prefixes},
          {"item", prefixes, prefixes},
          {"larger", prefixes, prefixes},
          {"bat", prefixes, prefixes},
          {"planner", prefixes, prefixes},
          {"planner", all, all},
          {"recompute", prefixes, prefixes},
          {"causal", plain, {}},
          {"blocks+30", plain, {}},
          {"all_blocks+30:attention:history20", plain, {}}})
      for (const double approximate : {0.0, 0.4}) {
        CAPTURE(policy);
        CAPTURE(approximate);
        Experiment e = small_experiment(policy, arrangements, interchangeable);
        e.approximate = approximate;
        PreparedExperiment prepared = prepare(e);
        TracedRequest first;
        REQUIRE(prepare(e).options.requests(first));
        const Blocks simulated = BlockRecorder(prepared.options.scenario).run(prepared.options.requests);
        check_same(simulated, served_instead(e, prepared.options.scenario, first), e.candidates);
      }
  }
}

}  // namespace block_names_test
