#include "deploy/lab/what_if/deployment_trial.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "deploy/data/request_trace.h"
#include "deploy/data/text_file.h"
#include "deploy/lab/traces/trace_makers.h"
#include "placement/cost/device_profiles.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace served_trial_test {

// The demo's ranker and world, with 400 requests per second on a processor so slow that a request takes more
// than 10 ms.
struct Demo : TestFolder {
  Demo() {
    const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";
    DataTraceOptions options{.data = demo / "world", .users = 9, .start = 3};
    options.common.candidates = 12;
    options.common.per_second = 400;
    DataTrace maker(options);
    world.trace = path() / "t.jsonl";
    TraceWriter writer(world.trace, "");
    TracedRequest request;
    for (int i = 0; i < 80 && maker.next(request); ++i) writer.write(request);
    writer.close();
    placement::DeviceProfile slow = placement::find_device("cpu");
    slow.name = "slow";
    for (double& peak : slow.peak_ops) peak /= 400;
    type.device = (path() / "slow.device").string();
    write_output(type.device, placement::device_text(slow));
    world.data = demo / "world";
    world.config.set("model.directory", (demo / "model").string());
    for (const char* setting : {"inference.executors", "inference.cores"}) world.config.set(setting, "1");
    world.config.set("router.policy", "recompute");
    world.config.set("pool.memory", "16MiB");
    for (const char* setting : {"router.deadline", "router.deadline_max"}) world.config.set(setting, "60s");
    world.speed = 1;
  }
  DeploymentInput world;
  NodeType type;
};

TEST_SUITE("served trial") {
  TEST_CASE("try_served: more nodes answer sooner, and the smallest number that holds the target is found") {
    Demo demo;
    const CapacityTrial one = try_deployment(demo.world, demo.type, 1),
                        four = try_deployment(demo.world, demo.type, 4);
    CHECK(one.lost == 0);
    CHECK(four.p99_ms < one.p99_ms / 2);
    const CapacityTarget target{.p99_ms = (one.p99_ms + four.p99_ms) / 2, .nodes_max = 8};
    const Capacity found = find_capacity(demo.type, target, [&](const NodeType& of, std::uint32_t nodes) {
      return try_deployment(demo.world, of, nodes);
    });
    REQUIRE(found.least);
    CHECK(found.least->nodes > 1);
    CHECK(found.least->nodes <= 4);
  }

  TEST_CASE("try_served: inference.overlap is refused, because it is not simulated") {
    Demo demo;
    demo.world.config.set("inference.overlap", "true");
    CHECK_THROWS_WITH_AS(try_deployment(demo.world, demo.type, 2),
                         doctest::Contains("inference.overlap is true; expected false"),
                         std::invalid_argument);
  }

  TEST_CASE("try_served: prototypes with rows in the pool are refused, because they are not simulated") {
    Demo demo;
    demo.world.config.set("model.tables", "mapped");
    CHECK(try_deployment(demo.world, demo.type, 1).lost == 0);  // the model has no prototypes
    demo.world.config.set("model.prototypes", "p");
    CHECK_THROWS_WITH_AS(try_deployment(demo.world, demo.type, 1),
                         doctest::Contains("model.tables is mapped, with model.prototypes; expected memory"),
                         std::invalid_argument);
    demo.world.config.set("model.tables", "sharded");
    CHECK_THROWS_WITH_AS(try_deployment(demo.world, demo.type, 1),
                         doctest::Contains("model.tables is sharded; expected memory or mapped"),
                         std::invalid_argument);
  }

  TEST_CASE("try_served: refused and late requests count as lost") {
    Demo demo;
    demo.world.config.set("router.deadline", "20ms");
    CHECK(try_deployment(demo.world, demo.type, 1).lost > 0.5);
  }
}

}  // namespace served_trial_test
