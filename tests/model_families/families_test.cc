// Tests that a second model family works wherever decoders do: as an executor, in a node over HTTP, in
// the simulated cluster and in benchmarks. Only its own files and the table of families know it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "deploy/lab/bench/bench_calibrate.h"
#include "deploy/lab/bench/bench_rank.h"
#include "placement/cost/device_profiles.h"
#include "sim/base/random.h"
#include "sim/runs/run.h"
#include "sim/world/toy_model.h"
#include "tests/fuzz/tiny_world.h"
#include "tests/model_families/pooled_family.h"

using namespace troupe;
using namespace troupe::families;

namespace {

const fuzz::ServedModel pooled_model{
    [](const std::filesystem::path& directory) { write_pooled_model(directory); },
    model_families_with_pooled()};

const fuzz::ServedModel pooled_generator{
    [](const std::filesystem::path& directory) { write_pooled_model(directory, {}, false); },
    model_families_with_pooled()};

nlohmann::json generated(const fuzz::ServedNode& box, const std::string& members) {
  const fuzz::Reply reply = box.ask("POST", "/v1/generate", R"({"user":"ana")" + members + "}");
  REQUIRE_MESSAGE(reply.status == 200, reply.body.dump());
  return reply.body;
}
std::vector<std::string> ids_of(const nlohmann::json& reply) {
  std::vector<std::string> ids;
  for (const auto& item : reply.at("items")) ids.push_back(item.at("id").get<std::string>());
  return ids;
}

// Pages of an executor, with all bytes set.
struct Pages {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
  std::vector<std::byte*> addresses;

  Pages(const kernels::PageLayout& layout, std::size_t tokens) {
    const std::size_t stride = (layout.bytes + 63) / 64 * 64, count = layout.pages_for(tokens);
    bytes.reset(static_cast<std::byte*>(std::aligned_alloc(64, stride * count)));
    std::fill_n(bytes.get(), stride * count, std::byte{0xff});
    for (std::size_t i = 0; i < count; ++i) addresses.push_back(bytes.get() + i * stride);
  }
};

kernels::Plan small_plan() {
  kernels::Plan plan;
  plan.segments = {{kernels::SegmentKind::user, {5, 6, 7, 8, 9}, 0, {}},
                   {kernels::SegmentKind::item, {20, 21}, 5, {0}},
                   {kernels::SegmentKind::discriminant, {2}, 7, {0, 1}}};
  plan.readouts = {{2, 0, {40, 41, 3}}};
  return plan;
}

// A toy oracle for the family: the mean of all visible tokens decides, whatever their order and positions.
class ToyPooled final : public sim::ToyFamily {
  sim::SegmentValue value_of(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t,
                             std::vector<sim::SegmentValue>& seen) const override {
    sim::SegmentValue value;
    for (const Token token : tokens)
      value.of_layer[0] += sim::mix(model_key, static_cast<std::uint32_t>(token));
    value.of_layer[1] = tokens.size();
    for (const sim::SegmentValue& other : seen)
      for (std::size_t layer = 0; layer < sim::layers; ++layer)
        value.of_layer[layer] += other.of_layer[layer];
    return value;
  }
  ScoreRow logits_of(const sim::SegmentValue& value, std::uint32_t,
                     std::span<const Token> rows) const override {
    ScoreRow row;
    for (const Token token : rows)
      row.scores.push_back(
          sim::to_unit(sim::mix(value.of_layer[0], value.of_layer[1], static_cast<std::uint32_t>(token))));
    return row;
  }
};

sim::Scenario pooled_scenario(std::uint64_t seed, const ToyPooled& family) {
  sim::Scenario scenario = sim::draw_scenario(seed, {.nodes = 3});
  scenario.family = &family;
  const PooledShape shape;
  scenario.hardware = sim::Hardware{placement::find_device("cpu"), pooled_cost(shape)};
  return scenario;
}

}  // namespace

TEST_SUITE("two families") {
  TEST_CASE("model families: config.json names the family; an unknown one is an error") {
    const kernels::TestFolder folder;
    write_pooled_model(folder.path());
    CHECK(family_of(model_families_with_pooled(), folder.path()).name == "pooled");
    CHECK(kernels::load_error_of([&] { family_of(deploy::all_families(), folder.path()); }) ==
          (folder.path() / "config.json").string() +
              ": model_type is \"pooled_mlp\"; expected one of \"qwen2\", \"qwen3\", \"llama\", \"climber\", "
              "\"hstu\", \"sasrec\"");
  }

  TEST_CASE("model families: the second family answers equally from pages and from tokens") {
    const auto executor = make_pooled_executor({}, 4);
    const kernels::Plan plan = small_plan();
    kernels::Request request{&plan, std::vector<kernels::SegmentKv>(3)};
    const auto computed = executor->run({&request, 1});
    Pages pages(executor->layout(), 5);
    request.kv[0].pages = pages.addresses;
    CHECK(executor->run({&request, 1})[0].readouts == computed[0].readouts);
    request.kv[0].source = kernels::Source::cached;
    CHECK(executor->share(1)->run({&request, 1})[0].readouts == computed[0].readouts);
    pages.addresses[1][0] ^= std::byte{0x40};
    CHECK(executor->run({&request, 1})[0].readouts != computed[0].readouts);
  }

  TEST_CASE("model families: a node serves it under every policy, and cached blocks change nothing") {
    const fuzz::ServedNode box({}, {}, pooled_model);
    const auto expected = box.steady_scores();
    const auto rank = [&](const std::string& policy) {
      std::string body =
          R"({"user":"ana","policy":")" + policy + R"(","candidates":["item-1","item-4","item-9"]})";
      const fuzz::Reply reply = box.ask("POST", "/v1/rank", body);
      REQUIRE_MESSAGE(reply.status == 200, reply.body.dump());
      CHECK(reply.body.at("model_version") == "pooled-1");
      return reply.body;
    };
    const auto want = rank("recompute").at("items");
    std::uint64_t reused = 0;
    for (const char* policy : {"user", "item", "bat", "planner", "user", "item"}) {
      CAPTURE(policy);
      const auto reply = rank(policy);
      reused += reply.at("tokens_reused").get<std::uint64_t>();
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(reply.at("items")[i].at("id") == want[i].at("id"));
        CHECK(std::abs(reply.at("items")[i].at("score").get<double>() - want[i].at("score").get<double>()) <
              1e-5);
      }
    }
    CHECK(reused > 0);
    CHECK(expected.size() == 8);
  }

  TEST_CASE("model families: its catalog assets belong to the catalog version of the request") {
    const fuzz::ServedNode box({}, {}, pooled_model);
    const auto score = [&] {
      const fuzz::Reply reply = box.ask("POST", "/v1/rank", R"({"user":"ana","candidates":["item-1"]})");
      REQUIRE_MESSAGE(reply.status == 200, reply.body.dump());
      return std::pair(reply.body.at("catalog_version").get<std::string>(),
                       reply.body.at("items")[0].at("score").get<double>());
    };
    const auto [first, before] = score();
    REQUIRE(box.ask("PUT", "/v1/items/one-more", R"({"title":"one more","tokens":[5,6],"identifier":50})")
                .status == 200);
    const auto [second, with_one_more] = score();
    CHECK(first != second);
    CHECK(with_one_more == doctest::Approx(before + 1));
    const fuzz::Reply scored =
        box.ask("POST", "/v1/score", R"({"query":[5],"items":[{"tokens":[6]}],"label_tokens":[7]})");
    CHECK_MESSAGE(scored.status == 200, scored.body.dump());  // scoring needs no catalog
  }

  TEST_CASE("model families: a node generates items of the catalog, best first, equally from cached blocks") {
    const fuzz::ServedNode box({}, {}, pooled_generator);
    const auto first = generated(box, R"(,"top_k":5)");
    const auto& items = first.at("items");
    REQUIRE(items.size() == 5);
    CHECK(first.at("reason") == "");
    CHECK(first.at("width") == 128);
    CHECK(first.at("tokens_reused") == 0);
    for (std::size_t i = 1; i < items.size(); ++i)
      CHECK(items[i - 1].at("log_probability").get<double>() >= items[i].at("log_probability").get<double>());
    const auto again = generated(box, R"(,"top_k":5)");
    CHECK(ids_of(again) == ids_of(first));
    CHECK(again.at("tokens_reused").get<std::uint64_t>() > 0);
    const auto all = generated(box, R"(,"top_k":50)");
    CHECK(all.at("items").size() == 20);
    CHECK(all.at("reason") == "only 20 items of the catalog may be returned; asked for 50");
  }

  TEST_CASE("model families: filters of a generate request hold, and new items are searched") {
    const fuzz::ServedNode box({}, {}, pooled_generator);
    const auto best = ids_of(generated(box, R"(,"top_k":3)"));
    const auto denied = ids_of(generated(box, R"(,"top_k":2,"deny":[")" + best[0] + "\"]"));
    CHECK(denied == std::vector(best.begin() + 1, best.end()));
    CHECK(ids_of(generated(box, R"(,"allow":["item-7","item-9"])")).size() == 2);
    const auto unseen = ids_of(generated(box, R"(,"top_k":50,"exclude_seen":true)"));
    CHECK(unseen.size() == 17);  // ana has seen three items
    CHECK(std::ranges::find(unseen, "item-0") == unseen.end());
    const auto tokens = generated(box, R"(,"top_k":1)").at("items")[0].at("tokens").dump();
    CHECK(box.ask("PUT", "/v1/items/a-twin", R"({"title":"T","identifier":1,"tokens":)" + tokens + "}")
              .status == 200);
    auto twins = std::vector<std::string>{"a-twin", best[0]};
    CHECK(ids_of(generated(box, R"(,"top_k":2)")) == twins);
    CHECK(box.ask("DELETE", "/v1/items/" + best[0]).status == 200);
    CHECK(ids_of(generated(box, R"(,"top_k":2)")) == std::vector<std::string>{"a-twin", best[1]});
  }

  TEST_CASE("model families: rankers refuse to generate, generators to rank; both score") {
    const fuzz::ServedNode generator({}, {}, pooled_generator), ranker({}, {}, pooled_model);
    const std::string rank = R"({"user":"ana","candidates":["item-1"]})";
    const auto code = [](const fuzz::Reply& reply) {
      return std::to_string(reply.status) + " " +
             reply.body.value("error", nlohmann::json::object()).value("code", "");
    };
    CHECK(code(generator.ask("POST", "/v1/rank", rank)) == "422 not_a_ranker");
    CHECK(code(ranker.ask("POST", "/v1/generate", R"({"user":"ana"})")) == "422 not_a_generator");
    CHECK(code(generator.ask("POST", "/v1/generate", R"({"user":"ana","steps":3})")) == "400 unknown_field");
    CHECK(code(generator.ask("GET", "/v1/generate")) == "405 wrong_method");
    CHECK(ranker.ask("GET", "/v1/models").body.at("data")[0].at("serves") == "rank, score");
    const auto models = generator.ask("GET", "/v1/models").body;
    CHECK(models.at("data")[0].at("serves") == "generate, complete, score");
    CHECK(models.at("data")[0].at("id") == "pooled-1");
    const std::string score = R"({"query":[5],"items":[{"tokens":[6]}],"label_tokens":[7]})";
    CHECK(code(generator.ask("POST", "/v1/score", score)) == "200 ");
  }

  TEST_CASE("model families: a simulated cluster keeps its promises through faults") {
    const ToyPooled family;
    for (const std::uint64_t seed : {3u, 11u}) {
      CAPTURE(seed);
      const sim::RunResult result = sim::run(pooled_scenario(seed, family));
      for (const sim::Violation& violation : result.violations) MESSAGE(violation.what);
      CHECK(result.violations.empty());
      CHECK(result.tally.answered > 0);
    }
  }

  TEST_CASE("model families: calibration and benchmarks work as for decoders") {
    const PooledShape large{.positions_max = 600};
    const deploy::Calibration calibration = deploy::calibrate(
        {{"pooled", {64, 600}, pooled_cost(large), [&] { return make_pooled_executor(large, 4); }}},
        {.cores = 1, .rounds = 1}, [](std::uint64_t) {});
    CHECK(calibration.rows.size() == deploy::calibration_passes(600).size());
    for (const deploy::CalibrationRow& row : calibration.rows) CHECK(row.timed.us > 0);

    const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";
    const kernels::TestFolder folder;
    write_pooled_model(folder.path(), {.vocabulary = 1892, .positions_max = 1024});
    for (const char* file : {"vocab.json", "prompt.json"})
      if (std::filesystem::exists(demo / "model" / file))
        std::filesystem::copy_file(demo / "model" / file, folder.path() / file,
                                   std::filesystem::copy_options::overwrite_existing);
    Config config;
    config.set("model.directory", folder.path().string());
    config.set("inference.executors", "2");
    deploy::BenchRank bench;
    bench.families = model_families_with_pooled();
    bench.data = demo / "world";
    bench.rows = deploy::read_evaluation(demo / "world" / "requests.jsonl");
    for (deploy::EvaluationRow& row : bench.rows) row.history.assign(20, row.candidates.front());
    bench.visits = deploy::make_visits(bench.rows, 6, 3, 7);
    const deploy::BenchRankRun run = run_policy(bench, config, bench_memory(bench, config), "item");
    CHECK(run.requests == 6);
    CHECK(run.errors == 0);
    CHECK(run.tokens_reused > 0);
  }
}
