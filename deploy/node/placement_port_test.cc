#include "deploy/node/placement_port.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"
#include "placement/assignment/placement.h"

namespace troupe::deploy {
namespace {

// Answers every job with an empty list.
class EmptyPort final : public Port {
 public:
  JobResult run(const Job&, std::uint32_t) override { return ItemList{}; }
  std::optional<JobResult> run_now(const Job&) override { return ItemList{}; }
};

std::string plan_of(const std::string& everywhere, const std::string& of_4) {
  return R"({"placements": [{"name": "metis", "nodes": [1, 4], "everywhere": [)" + everywhere +
         R"(], "shards": {"4": [)" + of_4 + "]}}]}";
}

TEST_CASE("placement port: the plan is read once after each change of its file") {
  const kernels::TestFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  folder.write("plan.json", plan_of("\"a\"", "\"b\""));
  EmptyPort next;
  PlacementPort port(*find_plan_name(file + ":metis"), next);
  const auto read = [&] { return std::get<PlacementRead>(port.run(ReadPlacement{}, 0)); };
  CHECK_FALSE(read().items);  // read at the start
  folder.write("plan.json", plan_of("\"a\"", "\"b\", \"c\""));
  const PlacementRead changed = read();
  REQUIRE(changed.items);
  CHECK(changed.why == "");
  CHECK(changed.nodes == std::vector<NodeId>{1, 4});
  CHECK(changed.items->at("a") == placement::everywhere);
  CHECK(changed.items->at("c") == 1);
  CHECK_FALSE(read().items);
}

TEST_CASE("placement port: a damaged file is reported once, and a missing one changes nothing") {
  const kernels::TestFolder folder;
  folder.write("plan.json", plan_of("", ""));
  EmptyPort next;
  PlacementPort port(*find_plan_name((folder.path() / "plan.json").string() + ":metis"), next);
  const auto read = [&] { return std::get<PlacementRead>(port.run(ReadPlacement{}, 0)); };
  folder.write("plan.json", "no plan at all");
  CHECK(read().why.find("plan.json") != std::string::npos);
  CHECK(read().why == "");
  std::filesystem::remove(folder.path() / "plan.json");
  CHECK(read().why == "");
  CHECK_FALSE(read().items);
}

TEST_CASE("placement port: a good file after a damaged or a missing one is read") {
  const kernels::TestFolder folder;
  folder.write("plan.json", plan_of("", ""));
  EmptyPort next;
  PlacementPort port(*find_plan_name((folder.path() / "plan.json").string() + ":metis"), next);
  const auto read = [&] { return std::get<PlacementRead>(port.run(ReadPlacement{}, 0)); };
  folder.write("plan.json", "no plan at all");
  CHECK(read().why != "");
  folder.write("plan.json", plan_of("\"a\"", "\"b\""));
  PlacementRead good = read();
  CHECK(good.why == "");
  REQUIRE(good.items);
  CHECK(good.items->at("a") == placement::everywhere);
  CHECK(good.items->at("b") == 1);
  std::filesystem::remove(folder.path() / "plan.json");
  CHECK_FALSE(read().items);
  folder.write("plan.json", plan_of("\"a\", \"b\"", "\"c\""));
  good = read();
  CHECK(good.why == "");
  REQUIRE(good.items);
  CHECK(good.items->at("b") == placement::everywhere);
}

TEST_CASE("placement port: other jobs go to the next port, and reading never runs at once") {
  EmptyPort next;
  PlacementPort port({"nowhere.json", "hrcs"}, next);
  CHECK(std::holds_alternative<ItemList>(port.run(ListItems{}, 0)));
  CHECK(port.run_now(ListItems{}));
  CHECK_FALSE(port.run_now(ReadPlacement{}));
}

}  // namespace
}  // namespace troupe::deploy
