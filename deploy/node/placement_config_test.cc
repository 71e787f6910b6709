// Tests which assignment of items to workers a router gets from pool.placement and pool.hot_share.
#include <doctest/doctest.h>

#include <memory>

#include "deploy/node/core_configs.h"
#include "deploy/node/node_cores.h"
#include "placement/popularity/hot_items.h"
#include "runtime/config/config.h"
#include "runtime/testing/shared_ranker.h"

namespace troupe::deploy {
namespace placement_config_test {

void describe_small(ServedModel& model) {
  model.prompt = shared_ranker({{1, 2}, {3}, {4, 5}, {6}, 64, 40});
  model.names.model_version = "m7";
  model.facts.shape = {
      .name = "s", .layers = 2, .hidden = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .intermediate = 16};
  model.facts.layout.page_tokens = 4;
  model.facts.layout.bytes = 400;
}

struct Small : ServedModel {
  Small() { describe_small(*this); }
};

// The models of a node, with pages of 400 bytes unless a test changes them.
struct NodeModels {
  explicit NodeModels(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      describe_small(*list.emplace_back(std::make_unique<ServedModel>()));
  }
  // Returns the pages that hot items of the model with this index may fill on each worker.
  std::uint64_t hot_item_pages(std::size_t at) const {
    const NodeCores cores(config, roles, list, {}, nullptr);
    return cores.config_of_router(*list.at(at)).precompute.refresh.replication.item_pages;
  }
  void look_up_no_items(std::size_t at) {
    list.at(at)->prompt.arrangements = {Arrangement::causal};
    list.at(at)->prompt.interchangeable = {};
  }
  Config config;
  NodeRoles roles{
      .node = 2, .cache_meta = false, .routers = {1, 2, 7}, .cache_metas = {3, 4}, .workers = {5, 2}};
  ServedModels list;
};

const NodeRoles among{
    .node = 2, .cache_meta = false, .routers = {1, 2, 7}, .cache_metas = {3, 4}, .workers = {5, 2}};
const NodeRoles alone;

TEST_CASE("router config: items are placed as pool.placement says") {
  Small model;
  model.config.set("pool.placement", "any");
  CHECK(router_config(model, among).places == nullptr);
  model.config.set("pool.placement", "hash");
  REQUIRE(router_config(model, among).places);
  CHECK(router_config(model, among).places->nodes() == std::vector<NodeId>{2, 5});
  CHECK(router_config(model, among).places->nodes_of("x").size() == 1);
  model.config.set("pool.placement", "replicate");
  CHECK(router_config(model, among).places->nodes_of("x").size() == 2);
}

TEST_CASE("router config: auto, the default, assigns by hash in a cluster and decides which items are hot") {
  Small model;
  const router::RouterConfig c = router_config(model, among);
  CHECK(c.placement == "auto");
  REQUIRE(c.places);
  CHECK(c.places->nodes() == std::vector<NodeId>{2, 5});
  CHECK(c.places->nodes_of("x").size() == 1);
  const router::RefreshConfig& refresh = c.precompute.refresh;
  CHECK(refresh.replication.on);
  CHECK(refresh.replication.page_tokens == 4);
  CHECK(refresh.window > router::RefreshConfig{}.window);
  model.config.set("pool.hot_share", "0.01");
  const router::RefreshConfig fixed = router_config(model, among).precompute.refresh;
  CHECK_FALSE(fixed.replication.on);
  CHECK(fixed.hot_share == 0.01);
  CHECK(fixed.window == router::RefreshConfig{}.window);
  model.config.set("pool.hot_share", "0");
  CHECK_FALSE(router_config(model, among).precompute.refresh.replication.on);
  CHECK(router_config(model, among).precompute.refresh.hot_share == 0);
  CHECK_THROWS_WITH_AS(model.config.set("pool.hot_share", "seldom"),
                       doctest::Contains("pool.hot_share is seldom; expected 0..1 | auto"), ConfigError);
}

TEST_CASE("node cores: hot items may fill the item area of a worker that does not know the catalog") {
  NodeModels models(1);
  CHECK(models.hot_item_pages(0) == (256U << 20) / 400 / 2);
  models.config.set("pool.item_share", "0.25");
  CHECK(models.hot_item_pages(0) == (256U << 20) / 400 / 4);
  models.config.set("pool.item_share", "auto");
  models.look_up_no_items(0);
  CHECK(models.hot_item_pages(0) == 0);
}

TEST_CASE("node cores: models with item blocks share the item area, in pages of the largest model") {
  NodeModels models(3);
  models.list[1]->facts.layout.bytes = 800;
  const std::uint64_t area = (256U << 20) / 800 / 2;
  for (const std::size_t at : {0U, 1U, 2U}) CHECK(models.hot_item_pages(at) == area / 3);
  models.look_up_no_items(1);  // its pages are the pool's nevertheless
  CHECK(models.hot_item_pages(0) == area / 2);
  CHECK(models.hot_item_pages(2) == area / 2);
}

TEST_CASE("node cores: hot items do not get the pages of rows of embedding tables") {
  NodeModels models(2);
  models.config.set("pool.row_share", "0.5");
  const std::uint64_t pages = (256U << 20) / 400;
  CHECK(models.hot_item_pages(0) == pages / 2 / 2);  // no table
  models.list[1]->facts.table_columns = 4;
  CHECK(models.hot_item_pages(0) == pages / 2 / 2 / 2);
}

TEST_CASE("router config: auto assigns nothing on a single node, or where no item blocks are looked up") {
  Small model;
  CHECK(router_config(model, alone).places == nullptr);
  CHECK(router_config(model, alone).placement == "any");
  model.config.set("pool.precompute_items", "false");
  CHECK(router_config(model, among).places == nullptr);
  model.config.set("pool.precompute_items", "true");
  model.prompt.arrangements = {Arrangement::causal};
  model.prompt.interchangeable = {};
  const router::RouterConfig c = router_config(model, among);
  CHECK(c.places == nullptr);
  CHECK(c.placement == "any");
  CHECK_FALSE(c.precompute.refresh.replication.on);
}

TEST_CASE("router config: others stand in for a worker that is silent for 150 heartbeats") {
  Small model;
  CHECK(router_config(model, among).precompute.refresh.away_after == router::RefreshConfig{}.away_after);
  model.config.set("cluster.heartbeat", "40ms");
  CHECK(router_config(model, among).precompute.refresh.away_after == Duration{6'000'000});
}

TEST_CASE("router config: with another placement than auto, a hot item has a share of 0.001") {
  Small model;
  model.config.set("pool.placement", "hash");
  const router::RefreshConfig refresh = router_config(model, among).precompute.refresh;
  CHECK_FALSE(refresh.replication.on);
  CHECK(refresh.hot_share == placement::HotItemsConfig{}.hot_share);
}

}  // namespace placement_config_test
}  // namespace troupe::deploy
