#include "deploy/foresight/served_world.h"

#include <doctest/doctest.h>

#include "deploy/bench/bench_rank.h"
#include "deploy/foresight/host_fit.h"
#include "deploy/traces/request_trace.h"
#include "deploy/traces/trace_makers.h"
#include "placement/cost/device_profiles.h"
#include "runtime/store/store_test_folder.h"
#include "sim/scenario/served.h"

using namespace troupe;
using namespace troupe::deploy;

namespace served_world_test {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

// Users of the demo world who come again, some with another profile.
struct Trace : TestFolder {
  explicit Trace(std::size_t count) {
    DataTraceOptions options{.data = demo / "world", .users = 9, .start = 3};
    options.making.candidates = 12;
    options.making.per_second = 400;
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
  for (const char* knob : {"inference.executors", "inference.cores"}) config.set(knob, "1");
  config.set("pool.hot_share", "0");  // hot items are brought back between requests, as there is time
  return config;
}

BenchedBoxes boxes_of(const Trace& trace, std::uint64_t pool_bytes, const BenchMemory& memory) {
  BenchedBoxes boxes{{.data = (demo / "world").string(), .trace = trace.file().string(), .in_flight = 1}, demo_config()};
  boxes.result.pool_bytes = pool_bytes;
  boxes.result.item_bytes = memory.item_bytes;
  boxes.result.user_bytes = memory.user_bytes;
  return boxes;
}

TEST_SUITE("served world") {
  TEST_CASE("asked one request at a time, a simulated box computes and finds exactly what a real one does") {
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
        const sim::ServedResult simulated = sim::run_served(
            served_options(world_of(boxes_of(trace, pool_bytes, memory), real, placement::find_device("cpu"), 1)));
        CHECK(simulated.violations.empty());
        CHECK(simulated.answered == real.requests);
        CHECK(simulated.tokens_total == real.tokens_total);
        // Which blocks a full pool kept of those computed ahead hangs by a chunk or two on when it was found to be full.
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

  TEST_CASE("a cluster of served nodes answers what one answers") {
    const Trace trace(30);
    ServedWorld world{.config = demo_config(),
                      .data = demo / "world",
                      .trace = trace.file(),
                      .device = placement::find_device("cpu"),
                      .link = placement::find_link("10gbps")};
    const auto run = [&](std::uint32_t nodes, std::uint32_t in_flight) {
      world.nodes = nodes;
      world.in_flight = in_flight;
      const sim::ServedResult result = sim::run_served(served_options(world));
      CHECK(result.violations.empty());
      CHECK(result.answered == 30);
      CHECK(result.plans_per_worker.size() == nodes);
      return result;
    };
    CHECK(run(1, 4).seconds > run(3, 4).seconds);
    // One at a time: else a request may be read before or after another has changed its user's profile.
    CHECK(run(1, 1).tokens_total == run(3, 1).tokens_total);
  }

  TEST_CASE("of a cluster as it is served each node knows all others, and two have the index") {
    const Trace trace(3);
    ServedWorld world{.config = demo_config(),
                      .data = demo / "world",
                      .trace = trace.file(),
                      .device = placement::find_device("cpu"),
                      .link = placement::find_link("10gbps")};
    CHECK_FALSE(served_options(world).scenario.served->router.coordinate);
    world.nodes = 3;
    const sim::ServedOptions options = served_options(world);
    const sim::Served& served = *options.scenario.served;
    const std::vector<NodeId> all{1, 2, 3}, others{2, 3}, two{1, 2};
    CHECK(served.router.workers == all);
    CHECK(served.router.routers == others);
    CHECK(served.router.cache_metas == two);
    CHECK(served.router.coordinate);
    CHECK(served.cache_meta.kv_nodes == all);
    CHECK(served.cache_meta.routers == all);
    CHECK(served.kv_worker.cache_metas == two);
    CHECK(served.kv_worker.pulls);
    CHECK(served.inference.routers == all);
  }

  TEST_CASE("what cannot be simulated as it is served is refused") {
    const Trace trace(3);
    ServedWorld world{.config = demo_config(),
                      .data = demo / "world",
                      .trace = trace.file(),
                      .device = placement::find_device("cpu"),
                      .link = placement::find_link("10gbps")};
    world.data = trace.path();  // no catalog
    CHECK_THROWS_AS(served_options(world), ImportError);
    world.data = "";
    CHECK_THROWS_AS(served_options(world), ConfigError);
    world.data = demo / "world";
    world.trace = trace.path() / "none";
    CHECK_THROWS_AS(served_options(world), ImportError);
  }
}

}  // namespace served_world_test
