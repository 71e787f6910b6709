// Tests that simulated nodes of other models than rankers with a discriminant compute and find what real ones
// do, and which models cannot be simulated.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "deploy/data/request_trace.h"
#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/testing/small_generator_test.h"
#include "deploy/lab/what_if/deployment_input.h"
#include "deploy/lab/what_if/host_fit.h"
#include "kernels/climber/climber_config.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/small_hstu_test.h"
#include "kernels/testing/small_sasrec_test.h"
#include "kernels/testing/test_folder.h"
#include "placement/cost/device_profiles.h"

using namespace troupe;
using namespace troupe::deploy;

namespace deployment_families_test {

std::filesystem::path write_trace(const kernels::TestFolder& folder,
                                  const std::vector<TracedRequest>& requests) {
  TraceWriter writer(folder.path() / "t.jsonl", "");
  for (const TracedRequest& request : requests) writer.write(request);
  writer.close();
  return folder.path() / "t.jsonl";
}

// Requests of a few users, some of whom return with more events. Without candidates, they generate.
std::vector<TracedRequest> visits(const std::vector<std::string>& items, std::size_t candidates) {
  std::vector<TracedRequest> requests;
  std::vector<std::uint64_t> profiles(4);
  for (std::size_t i = 0; i < 24; ++i) {
    TracedRequest& request = requests.emplace_back();
    const std::size_t user = i % 3 == 2 ? 3 : i % 4;
    request.user = "u" + std::to_string(user);
    if (profiles[user] == 0 || i % 5 == 0) {
      ++profiles[user];
      request.events = {items[i % items.size()], items[(i + 1) % items.size()]};
    }
    request.profile = profiles[user];
    request.generates = candidates == 0;
    for (std::size_t c = 0; c < candidates; ++c)
      request.candidates.push_back(items[(2 * i + c) % items.size()]);
  }
  return requests;
}

Config config_of(const std::filesystem::path& model) {
  Config config;
  config.set("model.directory", model.string());
  for (const char* setting : {"inference.executors", "inference.cores"}) config.set(setting, "1");
  config.set("pool.hot_share", "0");  // otherwise hot items are restored between requests, depending on time
  config.set("router.history_part", "2");
  return config;
}

// Serves the requests on a real node and on a simulated one under each policy, one at a time.
void check_like_real(const Config& config, const std::filesystem::path& data,
                     const std::filesystem::path& trace, const std::vector<const char*>& policies) {
  BenchRank bench;
  bench.data = data;
  bench.trace = trace;
  bench.in_flight = 1;
  const BenchMemory memory = bench_memory(bench, config);
  for (const char* policy : policies) {
    CAPTURE(policy);
    const BenchRankRun real = run_policy(bench, config, memory, policy);
    BenchmarkRuns benchmarks{{.data = data.string(), .trace = trace.string(), .in_flight = 1}, config};
    benchmarks.result.pool_bytes = memory.pool_bytes;
    benchmarks.result.item_bytes = memory.item_bytes;
    benchmarks.result.user_bytes = memory.user_bytes;
    const sim::DeploymentResult simulated =
        sim::run_deployment(deployment_options(world_of(benchmarks, real, placement::find_device("cpu"), 1)));
    for (const sim::Violation& violation : simulated.violations) FAIL_CHECK(violation.what);
    CHECK(simulated.answered == real.requests);
    CHECK(simulated.tokens_total == real.tokens_total);
    CHECK(simulated.tokens_computed == real.tokens_computed);
    CHECK(simulated.user_blocks_hit == real.user_blocks_hit);
    CHECK(simulated.user_blocks_computed == real.user_blocks_computed);
    CHECK(simulated.item_blocks_hit == real.item_blocks_hit);
    CHECK(simulated.item_blocks_computed == real.item_blocks_computed);
  }
}

DeploymentInput world_of_tokens(const kernels::TestFolder& folder, const std::string& config_json) {
  folder.write("config.json", config_json);
  folder.write("items.tsv", "item_id\n1\n2\n3\n4\n5\n6\n7\n8\n");
  return {.config = config_of(folder.path()),
          .data = folder.path(),
          .trace = write_trace(folder, visits({"1", "2", "3", "4", "5", "6", "7", "8"}, 3)),
          .in_flight = 1,
          .device = placement::find_device("cpu")};
}

TEST_SUITE("deployment families") {
  TEST_CASE(
      "deployment: a simulated ranker that scores each candidate computes and finds what a real one does") {
    const kernels::TestFolder folder;
    kernels::DecoderConfig shape;
    shape.layers = 2, shape.hidden = 32, shape.heads = shape.kv_heads = 2, shape.head_dim = 16;
    shape.intermediate = 32, shape.vocabulary = 64, shape.positions_max = 96;
    shape.qkv_bias = shape.tied_embeddings = true;
    kernels::write_decoder(kernels::random_decoder(shape, 3), folder.path(), kernels::StoredAs::f32);
    std::string text;
    std::vector<std::string> items;
    for (int i = 0; i < 12; ++i) {
      items.push_back("x" + std::to_string(i));
      text += R"({"id":")" + items.back() + R"(","title":"","tokens":[)" + std::to_string(20 + i) + "," +
              std::to_string(40 + i) + R"(],"identifier":)" + std::to_string(20 + i) + "}\n";
    }
    folder.write("items.jsonl", text);
    const std::filesystem::path trace = write_trace(folder, visits(items, 4));
    const std::string form =
        R"({"instruction":[1,2,3],"history_item":[4,"{words}"],"candidate":[5,6,"{words}",7],)"
        R"("read_at":7,"yes":8,"no":9,"max_history":3)";
    folder.write("prompt.json", form + "}");
    check_like_real(config_of(folder.path()), folder.path(), trace, {"recompute", "planner"});
    folder.write("prompt.json", form + R"(,"arrangements":["causal"]})");
    check_like_real(config_of(folder.path()), folder.path(), trace,
                    {"recompute", "causal", "blocks+30", "blocks+30:attention"});
    folder.write("prompt.json", form + R"(,"arrangements":["item_first","user_first","causal"],)"
                                       R"("interchangeable":["item_first","user_first"]})");
    check_like_real(config_of(folder.path()), folder.path(), trace, {"item", "user"});
  }

  TEST_CASE("deployment: a simulated generator computes and finds what a real one does") {
    const SmallGenerator generator;
    const kernels::TestFolder folder;
    check_like_real(config_of(generator.folder().path()), generator.folder().path(),
                    write_trace(folder, visits({"0", "1", "2"}, 0)), {"recompute", "planner"});
  }

  TEST_CASE("deployment: models whose tokens are items find the parts of a history that grew") {
    kernels::ClimberConfig climber = kernels::small_climber_config();
    climber.towers = {{kernels::ClimberStrategy::recent, 12}, {kernels::ClimberStrategy::recent, 7}};
    for (const std::string& text : {kernels::small_hstu(2), kernels::config_text(climber)}) {
      CAPTURE(text);
      const kernels::TestFolder folder;
      const sim::DeploymentResult result =
          sim::run_deployment(deployment_options(world_of_tokens(folder, text)));
      for (const sim::Violation& violation : result.violations) FAIL_CHECK(violation.what);
      CHECK(result.answered == 24);
      CHECK(result.tokens_reused > 0);
      CHECK(result.tokens_computed + result.tokens_reused == result.tokens_total);
    }
  }

  TEST_CASE("deployment: a model of next items ranks and finds the best items of the catalog in one trace") {
    const kernels::TestFolder folder;
    DeploymentInput world = world_of_tokens(folder, kernels::small_sasrec());
    std::vector<TracedRequest> requests = visits({"1", "2", "3", "4", "5", "6", "7", "8"}, 3);
    for (std::size_t i = 0; i < requests.size(); i += 2) {
      requests[i].generates = true;
      requests[i].top_k = 1 + i % 9;
      requests[i].candidates.clear();
    }
    world.trace = write_trace(folder, requests);
    const sim::DeploymentResult result = sim::run_deployment(deployment_options(world));
    for (const sim::Violation& violation : result.violations) FAIL_CHECK(violation.what);
    CHECK(result.answered == 24);
    CHECK(result.tokens_reused > 0);
  }

  TEST_CASE("deployment: a tower that chooses events by their actions is refused, for a trace has none") {
    const kernels::TestFolder folder;
    CHECK_THROWS_WITH_AS(
        deployment_options(world_of_tokens(folder, kernels::config_text(kernels::small_climber_config()))),
        doctest::Contains("expected towers that read the newest events"), std::invalid_argument);
  }

  TEST_CASE("deployment: requests of another kind than the model's, and uneven identifiers, are refused") {
    const SmallGenerator generator;
    const kernels::TestFolder folder;
    DeploymentInput world{.config = config_of(generator.folder().path()),
                          .data = generator.folder().path(),
                          .trace = write_trace(folder, visits({"0", "1", "2"}, 2)),
                          .device = placement::find_device("cpu")};
    CHECK_THROWS_WITH_AS(deployment_options(world),
                         doctest::Contains("the request ranks candidates, but the model generates"),
                         ImportError);
    world.trace = write_trace(folder, visits({"0", "1"}, 0));
    folder.write("items.tsv", "item_id\tsid\n0\t0,0\n1\t1\n");
    world.data = folder.path();
    CHECK_THROWS_WITH_AS(deployment_options(world), doctest::Contains("expected one length"),
                         std::invalid_argument);
  }
}

}  // namespace deployment_families_test
