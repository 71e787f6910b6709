#include "deploy/node/item_placement.h"

#include <doctest/doctest.h>

#include "kernels/testing/test_folder.h"
#include "runtime/config/config.h"

namespace troupe::deploy {
namespace {

using Nodes = std::vector<NodeId>;

TEST_CASE("pool.placement: any assigns no node, replicate every node, hash and auto one node") {
  CHECK(item_places("any", {1, 2}) == nullptr);
  CHECK(item_places("replicate", {2, 1})->nodes_of("x") == Nodes{1, 2});
  CHECK(item_places("hash", {2, 1})->nodes_of("x").size() == 1);
  CHECK(item_places("auto", {2, 1})->nodes_of("x") == item_places("hash", {1, 2})->nodes_of("x"));
}

TEST_CASE("pool.placement: a file may be followed by the name of a placement") {
  for (const char* word : {"auto", "any", "hash", "replicate"}) CHECK_FALSE(find_plan_name(word));
  CHECK(find_plan_name("plan.json")->placement == "hrcs");
  CHECK(find_plan_name("a/plan.json:metis")->file == "a/plan.json");
  CHECK(find_plan_name("a/plan.json:metis")->placement == "metis");
}

TEST_CASE("pool.placement: a plan's file is read, and its faults are reported") {
  const kernels::TestFolder folder;
  const std::string file = (folder.path() / "plan.json").string();
  folder.write("plan.json", R"({"placements": [
    {"name": "hrcs", "nodes": [1, 4], "everywhere": ["hot"], "shards": {"1": ["a"], "4": ["b"]}},
    {"name": "metis", "nodes": [1, 4], "everywhere": [], "shards": {"1": ["b"], "4": ["a"]}}]})");
  const auto hrcs = item_places(file, {4, 1});
  CHECK(hrcs->nodes_of("hot") == Nodes{1, 4});
  CHECK(hrcs->nodes_of("a") == Nodes{1});
  CHECK(hrcs->nodes_of("b") == Nodes{4});
  CHECK(hrcs->nodes_of("put later").size() == 1);
  CHECK(item_places(file + ":metis", {1, 4})->nodes_of("a") == Nodes{4});
  CHECK_THROWS_WITH_AS(
      item_places(file + ":best", {1, 4}),
      doctest::Contains(("pool.placement: " + file + ": there is no placement best").c_str()), ConfigError);
  CHECK_THROWS_AS(item_places(std::string(5'000, 'x'), {1, 4}), ConfigError);
  CHECK_THROWS_WITH_AS(
      item_places("nowhere", {1, 4}),
      "pool.placement is nowhere; expected auto, any, replicate, hash, or a file of troupe-lab plan --json",
      ConfigError);
  CHECK_THROWS_AS(item_places(file, {1, 2}), ConfigError);
}

TEST_CASE("pool.placement: items that a plan leaves nowhere belong to no node") {
  const kernels::TestFolder folder;
  std::string nowhere;  // by hash these would be on one of the two
  for (int item = 3; item < 64; ++item) nowhere += (item > 3 ? ", \"" : "\"") + std::to_string(item) + "\"";
  folder.write("plan.json", R"({"placements": [{"name": "hrcs", "nodes": [1, 4], "everywhere": ["0"],
    "shards": {"1": ["1"], "4": ["2"]}, "nowhere": [)" +
                                nowhere + "]}]}");
  const auto places = item_places((folder.path() / "plan.json").string(), {4, 1});
  CHECK(places->nodes_of("0") == Nodes{1, 4});
  CHECK(places->nodes_of("1") == Nodes{1});
  CHECK(places->nodes_of("2") == Nodes{4});
  for (int item = 3; item < 64; ++item) CHECK(places->nodes_of(std::to_string(item)).empty());
  CHECK(places->nodes_of("64").size() == 1);
}

}  // namespace
}  // namespace troupe::deploy
