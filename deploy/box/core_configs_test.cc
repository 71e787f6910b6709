#include "deploy/box/core_configs.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "deploy/families/cost_shape.h"
#include "kernels/base/test_folder.h"
#include "placement/cost/device_profiles.h"
#include "runtime/hard_state/etcd_test_server.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {
namespace core_configs_test {

struct Small : ServedModel {
  Small() {
    prompt = {{1, 2}, {3}, {4, 5}, {6}, 64, 40};
    names.model_version = "m7";
    facts.shape = {.name = "s", .layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .intermediate = 16};
    facts.layout.page_tokens = 4;
    facts.layout.bytes = 400;
  }
};

const Place among{.node = 2, .cache_meta = false, .routers = {1, 2, 7}, .cache_metas = {3, 4}, .workers = {5, 2}, .joined = true};
const Place alone;

std::string refusal_of(const ServedModel& model, const Place& place = {}) {
  try {
    router_config(model, place);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// What was added.
class Listed final : public Host {
 public:
  void add(ActorSpec actor) override {
    CHECK(actor.core != nullptr);
    CHECK(lanes.emplace(name_of(actor.address), actor.lanes).second);
    CHECK((actor.port == nullptr) == (actor.address.role == Role::allocator));
  }
  void set_door(Address, Door) override {}
  void start() override {}
  void post_encoded(Address, Bytes) override {}
  void stop() override {}

  std::string actors() const {
    std::string text;
    for (const auto& [name, of_it] : lanes) text += (text.empty() ? "" : " ") + name + ":" + std::to_string(of_it);
    return text;
  }

 private:
  std::map<std::string, std::uint32_t> lanes;
};

Config demo_config(const kernels::TestFolder& folder) {
  Config config;
  config.set("model.directory", std::string(TROUPE_ROOT_DIR) + "/deploy/demo/model");
  config.set("node.data_dir", (folder.path() / "data").string());
  config.set("pool.memory", "16MiB");
  config.set("inference.executors", "3");
  return config;
}

}  // namespace core_configs_test
using namespace core_configs_test;
}  // namespace

TEST_SUITE("core configs") {
  TEST_CASE("a router knows who the others are, and whether it joined them") {
    const router::RouterConfig c = router_config(Small(), among);
    CHECK(c.node == 2);
    CHECK(c.routers == std::vector<NodeId>{1, 7});
    CHECK(c.cache_metas == std::vector<NodeId>{3, 4});
    CHECK(c.workers == std::vector<NodeId>{5, 2});
    CHECK(c.joined);
    CHECK_FALSE(router_config(Small(), alone).joined);
    CHECK(router_config(Small(), alone).routers.empty());
    CHECK(c.features.every == Duration{1'000'000});
    CHECK(c.form.system == Tokens{1, 2});
    CHECK(c.names.model_version == "m7");
  }

  TEST_CASE("versions are coordinated among several routers, and where others can be loaded") {
    Small model;
    CHECK(router_config(model, among).coordinate);
    CHECK_FALSE(router_config(model, alone).coordinate);
    model.config.set("model.versions", "folder");
    CHECK(router_config(model, alone).coordinate);
  }

  TEST_CASE("homes are told where a policy splits the pool") {
    Small model;
    CHECK_FALSE(router_config(model, alone).tells_homes);
    model.config.set("pool.split", "marginal");
    CHECK(router_config(model, alone).tells_homes);
  }

  TEST_CASE("items are computed ahead where prompts have blocks of them") {
    Small model;
    CHECK(router_config(model, alone).precompute.on);
    model.prompt.history_plan = "hstu";
    CHECK_FALSE(router_config(model, alone).precompute.on);
    model.prompt.history_plan = "";
    model.config.set("pool.precompute_items", "false");
    CHECK_FALSE(router_config(model, alone).precompute.on);
  }

  TEST_CASE("a search is no wider than the model takes") {
    Small model;
    model.config.set("router.width_max", "100");
    CHECK(router_config(model, alone).limits.width_max == 100);
    model.facts.limits.width_max = 30;
    CHECK(router_config(model, alone).limits.width_max == 30);
    model.facts.limits.width_max = 300;
    CHECK(router_config(model, alone).limits.width_max == 100);
  }

  TEST_CASE("the pace of a worker that has not reported its own is a device's, or a token in 20 us") {
    Small model;
    const auto costs = placement::unit_costs(model.facts.shape);
    const router::RouterConfig plain = router_config(model, alone);
    CHECK(plain.costs.token_operations == costs.token_operations);
    CHECK(plain.costs.layers == 2);
    CHECK(plain.pace.us_per_operation * costs.token_operations == doctest::Approx(20));
    CHECK(plain.block_pace.us_per_operation == placement::Pace{}.us_per_operation);
    const auto nominal = inference_config(model, alone);
    CHECK(nominal.nominal_pace.us_per_operation ==
          doctest::Approx(placement::pace_of(placement::find_device("cpu"), model.facts.shape).us_per_operation));
    model.config.set("router.device", "A100-40G");
    const auto pace = placement::pace_of(placement::find_device("A100-40G"), model.facts.shape);
    const router::RouterConfig named = router_config(model, alone);
    for (const placement::Pace& is : {named.pace, named.block_pace, inference_config(model, alone).nominal_pace}) {
      CHECK(is.us_per_operation == doctest::Approx(pace.us_per_operation));
      CHECK(is.us_per_byte == doctest::Approx(pace.us_per_byte));
    }
    model.config.set("router.device", "abacus");
    CHECK(refusal_of(model).starts_with("router.device: "));
  }

  TEST_CASE("items are where pool.placement says") {
    Small model;
    CHECK(router_config(model, among).places == nullptr);
    model.config.set("pool.placement", "hash");
    REQUIRE(router_config(model, among).places);
    CHECK(router_config(model, among).places->nodes() == std::vector<NodeId>{2, 5});
    CHECK(router_config(model, among).places->nodes_of("x").size() == 1);
    model.config.set("pool.placement", "replicate");
    CHECK(router_config(model, among).places->nodes_of("x").size() == 2);
  }

  TEST_CASE("a policy without its prototypes, and weights that are none, are refused by the name of the knob") {
    Small model;
    CHECK(refusal_of(model) == "");
    model.config.set("router.tenant_weights", "shop=3,other=0.5");
    CHECK(router_config(model, alone).tenants.weights.size() == 2);
    model.config.set("router.tenant_weights", "shop=none");
    CHECK(refusal_of(model).starts_with("router.tenant_weights: "));
    model.config.set("router.tenant_weights", "");
    model.config.set("router.policy", "fastest");
    CHECK(refusal_of(model).starts_with("router.policy is \"fastest\"; expected "));
  }

  TEST_CASE("a cache-meta knows the nodes of its file, and its lease is five heartbeats") {
    Config config;
    config.set("cluster.heartbeat", "300ms");
    const actors::CacheMetaConfig c = cache_meta_config(config, among);
    CHECK(c.node == 2);
    CHECK(c.kv_nodes == std::vector<NodeId>{5, 2});
    CHECK(c.routers == std::vector<NodeId>{1, 2, 7});
    CHECK(c.joined);
    CHECK(c.leader_lease == Duration{1'500'000});
    CHECK_FALSE(cache_meta_config(config, alone).joined);
  }

  TEST_CASE("a KV-cache worker's pool is split by share, and it pulls where there are others") {
    Config config;
    config.set("pool.item_share", "0.3");
    config.set("pool.store_item_blocks", "true");
    const Small model;
    const actors::KvWorkerConfig c = kv_worker_config(config, among, model.facts.layout, 100);
    CHECK(c.node == 2);
    CHECK(c.cache_metas == std::vector<NodeId>{3, 4});
    CHECK(c.pulls);
    CHECK(c.store);
    CHECK(c.token_bytes == 100);
    CHECK(c.pull_parts == 1);
    CHECK(c.pool.pages == 100);
    CHECK(c.pool.page_tokens == 4);
    REQUIRE(c.pool.areas.size() == 2);
    CHECK(c.pool.areas[0].split.pages == 30);
    CHECK(c.pool.areas[1].split.pages == 70);
    CHECK_FALSE(kv_worker_config(config, alone, model.facts.layout, 100).pulls);
    config.set("pool.store_item_blocks", "false");
    CHECK_FALSE(kv_worker_config(config, alone, model.facts.layout, 100).store);
    CHECK(allocator_config(config, among, 100).shares == std::vector<double>{0.3, rest_of_pages});
  }

  TEST_CASE("an inference worker has a lane for each executor; tables are filled, and spread, where there are any") {
    Small model;
    model.config.set("inference.executors", "3");
    model.config.set("model.table_refill", "5MiB");
    model.config.set("model.tables", "sharded");
    actors::InferenceConfig c = inference_config(model, among);
    CHECK(c.lanes == 3);
    CHECK(c.page_tokens == 4);
    CHECK(c.refill_bytes == 0);
    CHECK(c.shard_owners.empty());
    CHECK(c.costs.layers == 2);
    model.facts.table_columns = 8;
    c = inference_config(model, among);
    CHECK(c.refill_bytes == 5 << 20);
    CHECK(c.shard_owners == std::vector<NodeId>{5, 2});
    model.config.set("model.tables", "mapped");
    CHECK(inference_config(model, among).shard_owners.empty());
  }

  TEST_CASE("a pool has whole pages, and one at least") {
    Config config;
    config.set("pool.memory", "1MiB");
    CHECK(pages_of(config, 1 << 18) == 4);
    CHECK(pages_of(config, (1 << 18) + 1) == 3);
    CHECK(pages_of(config, 1 << 20) == 1);
    CHECK_THROWS_WITH_AS(pages_of(config, (1 << 20) + 1),
                         "pool.memory is 1048576 bytes, less than one page; expected at least 1048577 bytes for this model", ConfigError);
  }

  TEST_CASE("a box that is alone is five actors, each with lanes for what it starts") {
    const kernels::TestFolder folder;
    Box box(demo_config(folder));
    Listed host;
    box.add_to(host);
    CHECK(host.actors() == "allocator@1:1 cache_meta@1:1 inference_worker@1:4 kv_worker@1:3 router@1:3");
    CHECK(box.executors() == 3);
    CHECK(box.keeps_features());
    CHECK(box.store() != nullptr);
    CHECK(box.items() == 0);
    CHECK(box.pool_pages() == (16 << 20) / box.model().layout.page_bytes());
    CHECK(box.store_damage() == "");
    CHECK(std::filesystem::status(folder.path() / "data").permissions() == std::filesystem::perms::owner_all);
    CHECK(box.actors().size() == 5);
    CHECK(box.actors({.routers = {1, 2}, .cache_metas = {3}, .workers = {2, 4, 5}}).size() == 2 + 1 + 3 * 3);
  }

  TEST_CASE("a worker among others has lanes for pulls, too; a router has only its own actor and no pool") {
    const EtcdServer etcd;
    if (!etcd.here()) {
      MESSAGE("skipped: no etcd on this machine");
      return;
    }
    const kernels::TestFolder folder;
    MetricRegistry metrics;
    Config config = demo_config(folder);
    config.set("transfer.devices", "lo");
    config.set("cluster.coordination", etcd.endpoint());
    {
      Box worker(config, {.node = 2, .router = false, .cache_meta = false, .workers = {1, 2}}, &metrics);
      Listed host;
      worker.add_to(host);
      CHECK(host.actors() == "allocator@2:1 inference_worker@2:4 kv_worker@2:7");
      CHECK_FALSE(worker.keeps_features());
      CHECK(worker.store() != nullptr);
    }
    Box router(config, {.node = 1, .cache_meta = false, .worker = false, .workers = {2}}, &metrics);
    Listed host;
    router.add_to(host);
    CHECK(host.actors() == "router@1:3");
    CHECK(router.pool_pages() == 0);
    CHECK(router.transport() == nullptr);
    Box meta(config, {.node = 3, .router = false, .worker = false, .cache_metas = {3}, .workers = {2}}, &metrics);
    Listed other;
    meta.add_to(other);
    CHECK(other.actors() == "cache_meta@3:1");
    CHECK(meta.store() == nullptr);
    CHECK_THROWS_WITH_AS(Box(config, {.node = 1, .cache_meta = false, .worker = false, .routers = {1, 4}, .workers = {2}}, &metrics),
                         "features.store is empty; expected a Redis, for there are several routers", ConfigError);
  }
}
