#include "deploy/node/item_area.h"

#include <doctest/doctest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "actors/allocator/allocator_core.h"
#include "actors/kv_worker/kv_worker_core.h"
#include "deploy/data/dataset.h"
#include "deploy/node/core_configs.h"
#include "deploy/node/local_node.h"
#include "kernels/testing/test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace {
namespace item_area_test {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

// A ranker with a system prompt of five tokens, in pages of four.
struct Ranker : ServedModel {
  explicit Ranker(std::vector<Arrangement> arrangements, const char* policy = "planner",
                  const char* approximate = "0") {
    prompt.system = {1, 2, 3, 4, 5};
    prompt.discriminant = {6};
    prompt.item = {7, 8};
    prompt.positions_max = 64;
    prompt.arrangements = std::move(arrangements);
    facts.layout.page_tokens = 4;
    facts.layout.bytes = 400;
    config.set("router.policy", policy);
    config.set("router.approximate", approximate);
  }
};

std::vector<Item> catalog_of(std::vector<std::size_t> tokens) {
  std::vector<Item> items;
  for (const std::size_t count : tokens) items.push_back({"i", "", std::vector<Token>(count, 9), 1, {}});
  return items;
}

// Returns the pages of the areas, with how they were sized.
struct Areas {
  std::vector<std::uint32_t> pages;
  ItemArea items;
};
Areas areas_of(const PoolSettings& settings, const std::vector<ModelItemBlocks>& models, std::uint32_t pages,
               bool has_rows = false) {
  const ItemArea items = item_area(settings, models, pages, has_rows);
  Areas areas{{}, items};
  for (const PagePoolSizes::Area& area : area_sizes(settings, items, has_rows, pages, 4).areas)
    areas.pages.push_back(static_cast<std::uint32_t>(area.split.pages));
  return areas;
}
using Pages = std::vector<std::uint32_t>;

const auto prefix = {Arrangement::item_first};
const auto causal = {Arrangement::causal};

// Keeps the cores of the KV-cache worker and the allocator agent.
class KeepingHost final : public Host {
 public:
  void add(ActorSpec actor) override {
    if (actor.address.role == Role::kv_worker) kv_worker = std::move(actor.core);
    if (actor.address.role == Role::allocator) allocator = std::move(actor.core);
  }
  void set_server(Address, ServerHandler) override {}
  void start() override {}
  void post_encoded(Address, Bytes) override {}
  void stop() override {}

  const PagePool& pool() const { return dynamic_cast<actors::KvWorkerCore&>(*kv_worker).pool(); }
  std::string status(const std::string& field) {
    Effects effects;
    allocator->step({}, Received{{1, Role::server}, StatusRequest{1}}, effects);
    for (const auto& effect : effects.list)
      if (const auto* sent = std::get_if<Effects::Send>(&effect))
        for (const auto& [name, value] : std::get<StatusReply>(sent->message).fields)
          if (name == field) return value;
    return "";
  }
  std::unique_ptr<Core> kv_worker, allocator;
};

// The demo's catalog under a form with these arrangements. Each of its items takes one page.
struct DemoNode {
  DemoNode(const std::string& arrangements, const std::vector<std::string>& settings, bool imported) {
    nlohmann::json form = nlohmann::json::parse(std::ifstream(demo / "model" / "prompt.json"));
    form["arrangements"] = nlohmann::json::parse(arrangements);
    form.erase("interchangeable");
    folder.write("form.json", form.dump());
    Config config;
    config.set("model.directory", (demo / "model").string());
    config.set("model.prompt", (folder.path() / "form.json").string());
    config.set("node.data_dir", (folder.path() / "data").string());
    config.set("pool.memory", "16MiB");
    for (const std::string& setting : settings) {
      const std::size_t equals = setting.find('=');
      config.set(setting.substr(0, equals), setting.substr(equals + 1));
    }
    LocalNode node(config, {}, nullptr, all_families(),
                   [this](LogLevel, auto&&, auto&& event, auto&& fields) {
                     if (std::string_view(event) != "pool_areas") return;
                     for (const LogField& field : fields) logged += field.name + "=" + field.value + " ";
                   });
    if (imported) node.features().import_items(read_items(demo / "world", node.vocabulary()));
    pages = static_cast<std::uint32_t>(node.pool_pages());
    node.add_to(host);
  }
  kernels::TestFolder folder;
  KeepingHost host;
  std::uint32_t pages = 0;
  std::string logged;
};

}  // namespace item_area_test
using namespace item_area_test;
}  // namespace

TEST_SUITE("item area of a node") {
  TEST_CASE("item area: a prefix block has the item mark and pages of its own; no tokens, no block") {
    const ModelItemBlocks blocks = model_item_blocks(Ranker(prefix), catalog_of({1, 4, 5, 0}));
    CHECK(blocks.reused);
    CHECK(blocks.items == 4);
    CHECK(blocks.pages.items == 1 + 2 + 2);
    CHECK(blocks.pages.shared == 2);
  }

  TEST_CASE("item area: a movable block has the item mark and begins on a page of its own") {
    for (const Ranker& model : {Ranker(causal, "blocks+30"), Ranker(causal, "planner", "0.5")})
      CHECK(model_item_blocks(model, catalog_of({1, 2, 3, 6, 7})).pages.items == 1 + 1 + 2 + 2 + 3);
  }

  TEST_CASE("item area: has the pages of the catalog and of the system prompt, and a quarter more") {
    const PoolSettings settings = Settings().pool;
    const Areas areas =
        areas_of(settings, {model_item_blocks(Ranker(prefix), catalog_of({1, 1, 4, 5}))}, 1'000);
    CHECK(areas.pages == Pages{6 + 2 + 2, 990});
    CHECK_FALSE(areas.items.in_user_area);
    CHECK(areas.items.rule == "6 pages for the blocks of 4 items, and a reserve");
  }

  TEST_CASE("item area: a catalog that is too large gets half, also of what rows leave and of tiny pools") {
    PoolSettings settings = Settings().pool;
    const std::vector<ModelItemBlocks> large{
        model_item_blocks(Ranker(prefix), catalog_of(std::vector<std::size_t>(500, 4)))};
    const Areas areas = areas_of(settings, large, 1'001);
    CHECK(areas.pages == Pages{500, 501});
    CHECK(areas.items.rule == "half: the blocks of 500 items, with the reserve, take 1252 pages");
    CHECK(areas_of(settings, large, 1).pages == Pages{0, 1});
    CHECK_FALSE(areas_of(settings, large, 1).items.in_user_area);
    settings.row_share = 0.6;
    CHECK(areas_of(settings, large, 1'000, true).pages == Pages{200, 200, 600});
    CHECK(areas_of(settings, large, 1'000, false).pages == Pages{500, 500});
  }

  TEST_CASE("item area: without a known catalog, or with shards of a table, it has half of the pages") {
    PoolSettings settings = Settings().pool;
    const Ranker model(prefix);
    const Areas unknown = areas_of(settings, {model_item_blocks(model, CatalogPointer())}, 100);
    CHECK(unknown.pages == Pages{50, 50});
    CHECK(unknown.items.rule == "half: the catalog is unknown");
    const Areas empty = areas_of(settings, {model_item_blocks(model, catalog_of({}))}, 100);
    CHECK(empty.pages == Pages{50, 50});
    CHECK(empty.items.rule == "half: the catalog is empty");
    Ranker sharded(causal);
    sharded.facts.table_columns = 4;
    sharded.config.set("model.tables", "sharded");
    CHECK(areas_of(settings, {model_item_blocks(sharded, CatalogPointer())}, 100).pages == Pages{50, 50});
  }

  TEST_CASE("item area: several models have the sum of their blocks") {
    const PoolSettings settings = Settings().pool;
    const ModelItemBlocks ranker = model_item_blocks(Ranker(prefix), catalog_of({4, 4, 4, 4}));
    const ModelItemBlocks none = model_item_blocks(Ranker(causal), CatalogPointer());
    CHECK(areas_of(settings, {none, ranker, ranker}, 1'000).pages == Pages{2 + 12 + 12, 974});
    CHECK(areas_of(settings, {none, model_item_blocks(Ranker(prefix), CatalogPointer())}, 100).pages ==
          Pages{50, 50});
  }

  TEST_CASE("item area: a model that may be changed has half, if its item blocks are reused") {
    const PoolSettings settings = Settings().pool;
    for (const bool reused : {true, false}) {
      Ranker changed(reused ? prefix : causal);
      changed.config.set("model.versions", "folder");
      const Areas areas = areas_of(settings, {model_item_blocks(changed, catalog_of({4, 4}))}, 1'000);
      CHECK(areas.pages == (reused ? Pages{500, 500} : Pages{0, 1'000}));
    }
  }

  TEST_CASE("item area: where no item blocks are reused, their kinds are in the user area") {
    PoolSettings settings = Settings().pool;
    for (const Ranker& model :
         {Ranker(causal), Ranker(causal, "recompute"), Ranker({Arrangement::user_first}, "user"),
          Ranker({Arrangement::causal, Arrangement::item_first})}) {
      const ModelItemBlocks blocks = model_item_blocks(model, catalog_of({4, 4}));
      CHECK_FALSE(blocks.reused);
      const Areas areas = areas_of(settings, {blocks}, 100);
      CHECK(areas.pages == Pages{0, 100});
      CHECK(areas.items.in_user_area);
      CHECK(areas.items.rule == no_item_blocks);
    }
    // A split policy gives the area pages again, so its blocks stay there.
    settings.split = "marginal";
    const Areas split = areas_of(settings, {model_item_blocks(Ranker(causal), catalog_of({4}))}, 100);
    CHECK(split.pages == Pages{2, 98});
    CHECK_FALSE(split.items.in_user_area);
  }

  TEST_CASE("item area: a number in the configuration is used as it is") {
    PoolSettings settings = Settings().pool;
    settings.row_share = 0.1;
    for (const double share : {0.0, 0.3, 0.9}) {
      settings.item_share = share;
      const Areas areas = areas_of(settings, {model_item_blocks(Ranker(causal), catalog_of({4}))}, 100, true);
      CHECK(areas.pages.front() == static_cast<std::uint32_t>(share * 100));
      CHECK_FALSE(areas.items.in_user_area);
      CHECK(areas.items.rule == "pool.item_share");
    }
  }

  TEST_CASE("item area: an unknown policy is refused") {
    CHECK_THROWS_AS(model_item_blocks(Ranker(prefix, "none such"), CatalogPointer()), ConfigError);
    CHECK_THROWS_AS(model_item_blocks(Ranker(causal, "item"), CatalogPointer()), ConfigError);
  }

  TEST_CASE("node: with a causal form, users have all pages, and item and system blocks are among them") {
    DemoNode node(R"(["causal"])", {}, true);
    const PagePool& pool = node.host.pool();
    CHECK(pool.cap(PoolArea::item) == 0);
    CHECK(pool.cap(PoolArea::user) == node.pages);
    CHECK(pool.area_of(SegmentKind::system) == PoolArea::user);
    CHECK(pool.area_of(SegmentKind::item) == PoolArea::user);
    CHECK(node.host.status("item_pages") == "0");
    CHECK(node.host.status("user_pages") == std::to_string(node.pages));
    CHECK(node.host.status("item_area") == "no item blocks are reused");
    CHECK(node.logged ==
          "item_area=no item blocks are reused item_pages=0 user_pages=" + std::to_string(node.pages) + " ");
  }

  TEST_CASE("node: with item first, the item area has the pages of the catalog, and users have the others") {
    DemoNode node(R"(["item_first", "user_first"])", {}, true);
    const std::uint32_t items = 1'600 + 400 + 2;  // and eight tokens of the system prompt
    REQUIRE(node.pages > 2 * items);
    const PagePool& pool = node.host.pool();
    CHECK(pool.cap(PoolArea::item) == items);
    CHECK(pool.cap(PoolArea::user) == node.pages - items);
    CHECK(pool.area_of(SegmentKind::system) == PoolArea::item);
    CHECK(node.host.status("item_pages") == std::to_string(items));
    CHECK(node.host.status("item_area") == "1600 pages for the blocks of 1600 items, and a reserve");
  }

  TEST_CASE("node: an empty catalog, or a share of the configuration, is not counted") {
    DemoNode empty(R"(["item_first"])", {}, false);
    CHECK(empty.host.pool().cap(PoolArea::item) == empty.pages / 2);
    CHECK(empty.host.status("item_area") == "half: the catalog is empty");
    DemoNode given(R"(["causal"])", {"pool.item_share=0.25"}, true);
    CHECK(given.host.pool().cap(PoolArea::item) == given.pages / 4);
    CHECK(given.host.pool().area_of(SegmentKind::item) == PoolArea::item);
    CHECK(given.host.status("item_area") == "pool.item_share");
  }
}
