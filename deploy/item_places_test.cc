#include "deploy/item_places.h"

#include <doctest/doctest.h>

#include "kernels/test_folder.h"
#include "runtime/config.h"

namespace troupe::deploy {
namespace {

using Nodes = std::vector<NodeId>;

TEST_CASE("pool.placement: any is nowhere in particular, replicate everywhere, hash on one node") {
  CHECK(item_places("any", {1, 2}) == nullptr);
  CHECK(item_places("replicate", {2, 1})->nodes_of("x") == Nodes{1, 2});
  CHECK(item_places("hash", {2, 1})->nodes_of("x").size() == 1);
}

TEST_CASE("pool.placement: a plan's file, and what is wrong with it") {
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
  CHECK_THROWS_AS(item_places(file + ":best", {1, 4}), std::runtime_error);
  CHECK_THROWS_WITH_AS(item_places("nowhere", {1, 4}),
                       "pool.placement is nowhere; expected any, replicate, hash, or a plan's file", ConfigError);
  CHECK_THROWS_AS(item_places(file, {1, 2}), ConfigError);
}

}  // namespace
}  // namespace troupe::deploy
