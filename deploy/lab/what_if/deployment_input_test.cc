#include "deploy/lab/what_if/deployment_input.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "deploy/data/request_trace.h"
#include "deploy/lab/bench/bench_rank.h"
#include "deploy/lab/traces/trace_makers.h"
#include "deploy/lab/what_if/host_fit.h"
#include "placement/cost/device_profiles.h"
#include "runtime/features/store_features.h"
#include "runtime/testing/store_test_folder.h"
#include "sim/scenario/deployment_config.h"

using namespace troupe;
using namespace troupe::deploy;

namespace served_world_test {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

// A trace of returning users of the demo world, some with a changed profile.
struct Trace : TestFolder {
  explicit Trace(std::size_t count) {
    DataTraceOptions options{.data = demo / "world", .users = 9, .start = 3};
    options.common.candidates = 12;
    options.common.per_second = 400;
    DataTrace maker(options);
    TraceWriter writer(file(), "");
    TracedRequest request;
    for (std::size_t i = 0; i < count && maker.next(request); ++i) writer.write(request);
    writer.close();
  }
  std::filesystem::path file() const { return path() / "t.jsonl"; }
};

Config demo_config() {
  Config config;
  config.set("model.directory", (demo / "model").string());
  for (const char* setting : {"inference.executors", "inference.cores"}) config.set(setting, "1");
  config.set("pool.hot_share", "0");  // otherwise hot items are restored between requests, depending on time
  return config;
}

DeploymentInput demo_world(const Trace& trace) {
  return {.config = demo_config(),
          .data = demo / "world",
          .trace = trace.file(),
          .device = placement::find_device("cpu"),
          .link = placement::find_link("10gbps")};
}

BenchmarkRuns benchmark_of(const Trace& trace, std::uint64_t pool_bytes, const BenchMemory& memory) {
  BenchmarkRuns benchmarks{
      {.data = (demo / "world").string(), .trace = trace.file().string(), .in_flight = 1}, demo_config()};
  benchmarks.result.pool_bytes = pool_bytes;
  benchmarks.result.item_bytes = memory.item_bytes;
  benchmarks.result.user_bytes = memory.user_bytes;
  return benchmarks;
}

TEST_SUITE("served world") {
  TEST_CASE(
      "served world: with one request in flight, a simulated node computes and finds what a real one does") {
    const Trace trace(60);
    BenchRank bench;
    bench.data = demo / "world";
    bench.trace = trace.file();
    bench.in_flight = 1;
    BenchMemory memory = bench_memory(bench, demo_config());
    const std::uint64_t all = memory.pool_bytes;
    for (const std::uint64_t pool_bytes : {all, std::max<std::uint64_t>(1 << 20, all / 3)})
      for (const char* policy : {"recompute", "user", "item", "bat"}) {
        CAPTURE(policy);
        CAPTURE(pool_bytes);
        memory.pool_bytes = pool_bytes;
        const BenchRankRun real = run_policy(bench, demo_config(), memory, policy);
        const sim::DeploymentResult simulated = sim::run_deployment(deployment_options(
            world_of(benchmark_of(trace, pool_bytes, memory), real, placement::find_device("cpu"), 1)));
        CHECK(simulated.violations.empty());
        CHECK(simulated.answered == real.requests);
        CHECK(simulated.tokens_total == real.tokens_total);
        // In a full pool, the kept precomputed blocks may differ by a chunk or two, depending on when the
        // pool was found to be full.
        const std::uint64_t slack = pool_bytes == all ? 0 : 20;
        const auto differ = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; };
        CHECK(differ(simulated.tokens_computed, real.tokens_computed) <= 20 * slack);
        CHECK(differ(simulated.plans_user, real.plans_user) <= slack);
        CHECK(differ(simulated.user_blocks_hit, real.user_blocks_hit) <= slack);
        CHECK(differ(simulated.user_blocks_computed, real.user_blocks_computed) <= slack);
        CHECK(differ(simulated.item_blocks_hit, real.item_blocks_hit) <= slack);
        CHECK(differ(simulated.item_blocks_computed, real.item_blocks_computed) <= slack);
      }
  }

  TEST_CASE("served world: a cluster answers what one node answers, and sooner") {
    const Trace trace(30);
    DeploymentInput world = demo_world(trace);
    const auto run = [&](std::uint32_t nodes, std::uint32_t in_flight) {
      world.nodes = nodes;
      world.in_flight = in_flight;
      const sim::DeploymentResult result = sim::run_deployment(deployment_options(world));
      CHECK(result.violations.empty());
      CHECK(result.answered == 30);
      CHECK(result.plans_per_worker.size() == nodes);
      return result;
    };
    CHECK(run(1, 4).seconds > run(3, 4).seconds);
    // One request in flight. Otherwise a request may run before or after another one changes its profile.
    CHECK(run(1, 1).tokens_total == run(3, 1).tokens_total);
  }

  TEST_CASE("served world: each node of a cluster knows all others, and two nodes have a cache-meta") {
    const Trace trace(3);
    DeploymentInput world = demo_world(trace);
    CHECK_FALSE(deployment_options(world).scenario.served->router.coordinate);
    world.nodes = 3;
    const sim::DeploymentOptions options = deployment_options(world);
    const sim::DeploymentConfig& served = *options.scenario.served;
    const std::vector<NodeId> all{1, 2, 3}, others{2, 3}, two{1, 2};
    CHECK(served.router.workers == all);
    CHECK(served.router.routers == others);
    CHECK(served.router.cache_metas == two);
    CHECK(served.router.coordinate);
    CHECK(served.cache_meta.kv_nodes == all);
    CHECK(served.cache_meta.routers == all);
    CHECK(served.kv_worker.cache_metas == two);
    CHECK(served.kv_worker.pulls);
    CHECK(served.router.precompute.refresh.replication.item_pages == served.kv_worker.pool.pages / 2);
    CHECK(served.inference.routers == all);
    world.routers = 5;
    CHECK_THROWS_WITH_AS(deployment_options(world), "--routers is 5; expected at most --nodes, 3",
                         std::invalid_argument);
    world.routers = 1;  // the others are workers alone, the second with a cache-meta
    const sim::DeploymentOptions fewer = deployment_options(world);
    CHECK(fewer.scenario.routers == 1);
    CHECK(fewer.scenario.workers == 3);
    CHECK(fewer.scenario.cache_metas == 2);
    CHECK(fewer.scenario.served->router.workers == all);
    CHECK(fewer.scenario.served->router.routers.empty());
    CHECK_FALSE(fewer.scenario.served->router.coordinate);
    world.in_flight = 1;
    CHECK(sim::run_deployment(deployment_options(world)).answered == 3);
  }

  TEST_CASE("served world: settings and machine of a node appear in its scenario") {
    const Trace trace(8);
    DeploymentInput world = demo_world(trace);
    world.requests_max = 5;
    world.in_flight = 3;
    world.nodes = 2;
    world.cores = 6;
    world.seed = 9;
    for (const auto& [setting, value] : {std::pair{"pool.memory", "8MiB"},
                                         {"pool.page_tokens", "8"},
                                         {"router.policy", "item"},
                                         {"router.approximate", "0.3"},
                                         {"router.deadline", "3s"},
                                         {"cluster.heartbeat", "300ms"},
                                         {"pool.verify_on_read", "true"},
                                         {"router.history_events_max", "77"}})
      world.config.set(setting, value);
    const sim::DeploymentOptions options = deployment_options(world);
    const sim::Scenario& s = options.scenario;
    CHECK(options.total == 5);
    CHECK(options.in_flight == 3);
    CHECK(s.seed == 9);
    CHECK(s.together);
    CHECK(s.whole_catalogs);
    CHECK(s.workers == 2);
    CHECK(s.routers == 2);
    CHECK(s.cache_metas == 2);
    CHECK(s.items == s.served->items.size());
    CHECK(s.items == 1600);
    CHECK(s.tenants == 1);
    CHECK(s.writes_share == 0);
    CHECK(s.page_tokens == 8);
    CHECK(s.pages == s.served->kv_worker.pool.pages);
    CHECK(s.pages > 100);
    CHECK(s.policy.name() == "item");
    CHECK(s.approximate == doctest::Approx(0.3));
    CHECK(s.deadline == Duration{3'000'000});
    CHECK(s.heartbeat == Duration{300'000});
    CHECK(s.verify_on_read);
    CHECK(s.slots == 1);
    CHECK(s.processors == 6);
    CHECK(s.hardware->device.split_share == 0);  // one core computes alone
    CHECK(s.hardware->shape.layers > 0);
    CHECK(s.link.latency_min.us == std::llround(world.link.latency_us));
    CHECK(s.link.latency_max == s.link.latency_min);
    CHECK(s.link.bytes_per_us == doctest::Approx(world.link.bandwidth * world.link.efficiency / 1e6));
    CHECK(s.served->history_events_max == 77);
    CHECK(s.served->allocator.pages == s.pages);
    TracedRequest request;
    std::size_t count = 0;
    Instant last;
    for (; options.requests(request); ++count) last = request.at;
    CHECK(count == 5);
    world.link.latency_us = 0.2;
    world.requests_max = 0;
    world.speed = 4;
    for (const char* setting : {"inference.executors", "inference.cores"}) world.config.set(setting, "0");
    world.config.set("pool.verify_on_read", "false");
    const sim::DeploymentOptions timed = deployment_options(world);
    CHECK(timed.in_flight == 0);
    CHECK(timed.total == 8);
    CHECK(timed.scenario.link.latency_min.us == 1);
    CHECK(timed.scenario.slots == 6);
    CHECK(timed.scenario.hardware->device.split_share == world.device.split_share);
    CHECK_FALSE(timed.scenario.verify_on_read);
    Instant at;
    for (count = 0; timed.requests(request); ++count) at = request.at;
    CHECK(count == 8);
    CHECK(at.us > 0);
    CHECK(at.us < last.us);
  }

  TEST_CASE("served world: an imported catalog gives the same items as the files that it came from") {
    const Trace trace(4);
    DeploymentInput world = demo_world(trace);
    const auto from_files = deployment_options(world).scenario.served;
    world.config.set("node.data_dir", (trace.path() / "none").string());
    world.data = "";
    CHECK_THROWS_WITH_AS(
        deployment_options(world),
        doctest::Contains("none does not exist; expected the data folder of a node, or --data"), ConfigError);
    const std::filesystem::path folder = trace.path() / "data";
    std::filesystem::create_directories(folder);
    {
      Store store(folder);
      const FeatureLimits limits{.vocabulary = 10'000, .item_tokens_max = 64, .history_events_max = 100};
      RocksFeaturePort features(store, limits, [](std::span<const Token>) { return BlockName{}; });
      std::vector<PutItem> items;
      for (const Item& item : from_files->items)
        items.push_back({0, item.id, item.title, item.tokens, item.identifier});
      features.import_items(items);
    }
    world.config.set("node.data_dir", folder.string());
    const auto from_folder = deployment_options(world).scenario.served;
    REQUIRE(from_folder->items.size() == from_files->items.size());
    const auto sorted = [](std::vector<Item> items) {  // a data folder has its own order of numbers
      std::ranges::sort(items, {}, &Item::id);
      return items;
    };
    const std::vector<Item> files = sorted(from_files->items), imported = sorted(from_folder->items);
    for (std::size_t i = 0; i < files.size(); ++i) {
      CHECK(imported[i].id == files[i].id);
      CHECK(imported[i].title == files[i].title);
      CHECK(imported[i].tokens == files[i].tokens);
      CHECK(imported[i].identifier == files[i].identifier);
    }
  }

  TEST_CASE("served world: a setting that cannot be simulated is refused by name") {
    const Trace trace(3);
    const auto refused_with = [&](const char* setting, const char* value) -> std::string {
      DeploymentInput world = demo_world(trace);
      world.config.set(setting, value);
      try {
        deployment_options(world);
      } catch (const std::exception& error) {
        return error.what();
      }
      return "";
    };
    CHECK(refused_with("inference.overlap", "true").starts_with("inference.overlap is true; expected false"));
    CHECK(refused_with("model.tables", "sharded")
              .starts_with("model.tables is sharded; expected memory or mapped"));
    CHECK(refused_with("model.tables", "mapped") == "");
  }

  TEST_CASE("served world: a missing catalog, data folder or trace is refused") {
    const Trace trace(3);
    DeploymentInput world = demo_world(trace);
    world.data = trace.path();  // no catalog
    CHECK_THROWS_AS(deployment_options(world), ImportError);
    world.data = "";
    CHECK_THROWS_AS(deployment_options(world), ConfigError);
    world.data = demo / "world";
    world.trace = trace.path() / "none";
    CHECK_THROWS_AS(deployment_options(world), ImportError);
  }
}

}  // namespace served_world_test
