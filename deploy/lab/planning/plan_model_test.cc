// Tests that a plan for a served model takes its blocks, and not those of a published shape.
#include "deploy/lab/planning/plan_model.h"

#include <doctest/doctest.h>

#include "deploy/data/text_file.h"
#include "deploy/lab/planning/command_plan.h"
#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;

namespace plan_model_test {

const std::filesystem::path demo = std::filesystem::path(TROUPE_ROOT_DIR) / "deploy" / "demo";

Config demo_config(const char* policy) {
  Config config;
  config.set("model.directory", (demo / "model").string());
  config.set("router.policy", policy);
  return config;
}

TEST_SUITE("plan model") {
  TEST_CASE("plan model: the blocks are those of the model, in whole pages") {
    const PlanModel model = read_plan_model(demo_config("item"), demo / "world");
    REQUIRE(model.catalog.ids.size() == 1600);
    CHECK(model.catalog.ids.front() == "camp-0000");
    CHECK(model.catalog.tokens.front() == 3);
    CHECK(model.catalog.numbers.at("camp-0000") == 0);
    CHECK(model.policy == "item");
    CHECK(model.page_bytes == doctest::Approx(model.page_tokens * model.shape.kv_token_bytes()));
    CHECK(model.block_bytes(1) == model.page_bytes);
    CHECK(model.block_bytes(model.page_tokens) == model.page_bytes);
    CHECK(model.block_bytes(model.page_tokens + 1) == 2 * model.page_bytes);
  }

  TEST_CASE("plan model: with model.weights auto the plan is that of the checkpoint's format") {
    Config config = demo_config("item");
    config.set("model.weights", "auto");
    const PlanModel model = read_plan_model(config, demo / "world");
    CHECK(model.shape.weight_bytes == 4);
    CHECK(model.page_bytes == read_plan_model(demo_config("item"), demo / "world").page_bytes);
  }

  TEST_CASE("plan model: a policy that looks up no item blocks leaves nothing to place") {
    CHECK_THROWS_WITH_AS(
        read_plan_model(demo_config("user"), demo / "world"),
        doctest::Contains("look up no blocks of items, so there is nothing to place: no item "
                          "blocks are reused. Expected "),
        std::invalid_argument);
  }

  TEST_CASE("plan model: the plan has the model's shape and sizes") {
    const Planning plan = make_planning({.data = (demo / "world").string(),
                                         .memory_bytes = 1'000'000,
                                         .candidates = 50,
                                         .served = demo_config("planner")});
    CHECK(plan.model == (demo / "model").string());
    CHECK(plan.policy == "planner");
    const PlanModel model = read_plan_model(demo_config("planner"), demo / "world");
    CHECK(plan.setup.shape.name == model.shape.name);
    CHECK(plan.workload.items.count() == 1600);
    CHECK(plan.workload.items.total_bytes() == 1600 * model.page_bytes);
  }

  TEST_CASE("plan model: the item area is that of the fullest node, in pages of the model") {
    Config config = demo_config("planner");
    config.set("pool.memory", "16MiB");
    const Planning plan = make_planning(
        {.data = (demo / "world").string(), .memory_bytes = 8'000'000, .candidates = 50, .served = config});
    REQUIRE(plan.pool);
    CHECK(plan.pool->pages == (16 << 20) / plan.pool->page_bytes);
    CHECK(plan.pool->item_blocks.items == 1600);
    CHECK(plan.pool->item_blocks.shared == 2);
    PlannedPlacement planned{.name = "p", .placement = placement::Placement({1, 2}, 0)};
    planned.node_bytes = {100 * plan.pool->page_bytes, 40 * plan.pool->page_bytes};
    const PlanItemArea part = plan_item_area(planned, *plan.pool);
    CHECK(part.pages == 127);
    CHECK(part.auto_pages == 2002);
    CHECK(part.is_auto());
    CHECK(item_area_figures(planned, plan.pool)["item_share"] == "auto");
    planned.node_bytes[1] = 4'000 * plan.pool->page_bytes;  // more than half of the pool
    const PlanItemArea most = plan_item_area(planned, *plan.pool);
    CHECK(most.pages == 5'002);
    CHECK_FALSE(most.is_auto());
    CHECK(most.share * plan.pool->pages >= 5'002);
    CHECK(item_area_figures(planned, plan.pool)["item_share"] == most.share);
    planned.node_bytes[1] = 6'000 * plan.pool->page_bytes;
    CHECK(item_area_figures(planned, plan.pool)["item_share"].is_null());
    CHECK(item_area_text(planned, plan.pool).find("pool.memory is too small") != std::string::npos);
    CHECK(item_area_text(planned, {}).empty());
    CHECK(item_area_figures(planned, {})["item_share"] == "auto");
  }

  TEST_CASE("plan model: a trace gives the accesses and what is requested together") {
    const TestFolder folder;
    folder.write("t.jsonl", R"({"format":"troupe-trace","version":1,"source":"test"})"
                            "\n"
                            R"({"at_us":0,"user":"a","profile":1,"candidates":["camp-0001","camp-0003"]})"
                            "\n"
                            R"({"at_us":5,"user":"b","profile":1,"candidates":["camp-0003"]})"
                            "\n");
    const PlanModel model = read_plan_model(demo_config("item"), demo / "world");
    const placement::Requests requests = read_plan_trace(folder.path() / "t.jsonl", model.catalog);
    CHECK(requests.items == std::vector<placement::ItemNumber>{1, 3, 3});
    CHECK(requests.ends == std::vector<std::uint64_t>{2, 3});
    folder.write("other.jsonl", R"({"format":"troupe-trace","version":1,"source":"test"})"
                                "\n"
                                R"({"at_us":0,"user":"a","profile":1,"candidates":["nowhere"]})"
                                "\n");
    CHECK_THROWS_WITH_AS(read_plan_trace(folder.path() / "other.jsonl", model.catalog),
                         doctest::Contains("item nowhere is not in the catalog"), ImportError);
  }
}

}  // namespace plan_model_test
