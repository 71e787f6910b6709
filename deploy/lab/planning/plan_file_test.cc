#include "deploy/lab/planning/plan_file.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/testing/store_test_folder.h"

using namespace troupe;
using namespace troupe::deploy;
using placement::Placement;

namespace {

const std::vector<std::string> ids{"x", "y", "z"};

// Placement with x on every node, y on node 5, z on no node.
Placement small() {
  Placement placement({2, 5}, 3);
  placement.put(0, placement::everywhere);
  placement.put(1, 1);
  return placement;
}

struct Folder : TestFolder {
  std::string file = (path() / "plan.json").string();

  void write_plan(const Placement& placement) const {
    nlohmann::json one = placement_list(placement, ids);
    one["name"] = "hrcs";
    write("plan.json", nlohmann::json{{"placements", {one}}}.dump());
  }
};

TEST_SUITE("plan file") {
  TEST_CASE("plan file: lists items on every, each and no node, and is read back") {
    const Folder folder;
    folder.write_plan(small());
    const PreviousPlacement earlier = read_placement(folder.file, "hrcs");
    CHECK(earlier.nodes == std::vector<placement::NodeNumber>{2, 5});
    CHECK(earlier.everywhere == std::vector<std::string>{"x"});
    CHECK(earlier.nowhere == std::vector<std::string>{"z"});
    CHECK(earlier.shards.at(2).empty());
    CHECK(earlier.shards.at(5) == std::vector<std::string>{"y"});
    const PlanMoves none = moves_from(earlier, small(), placement::Items(3, 10), ids);
    CHECK(none.moves.empty());
    CHECK(none.changed_items == 0);
  }

  TEST_CASE("plan file: generated items are listed by number") {
    CHECK(placement_list(small(), {}).at("everywhere") == nlohmann::json{"0"});
    CHECK_THROWS_AS(placement_list(Placement({1}, listed_items_max + 1), {}), std::invalid_argument);
  }

  TEST_CASE("plan moves: items are added, removed and moved by id") {
    const Folder folder;
    folder.write_plan(small());
    const std::vector<std::string> later{"n", "y", "x"};  // z was on no node, n is new
    Placement next({2, 5, 7}, 3);
    next.put(0, 2);
    next.put(1, 0);
    next.put(2, placement::everywhere);
    const PlanMoves moves =
        moves_from(read_placement(folder.file, "hrcs"), next, placement::Items(3, 10), later);
    CHECK(moves.changed_items == 3);
    CHECK(moves.gains == 3);
    CHECK(moves.computed == 1);
    CHECK(moves.losses == 1);
    CHECK(moves.gained_bytes == 30);
    const nlohmann::json list = moves_list(moves, later);
    REQUIRE(list.size() == 4);
    CHECK(list[0] == nlohmann::json{{"item", "n"}, {"node", 7}, {"get_from", 0}});
    CHECK(list[1] == nlohmann::json{{"item", "y"}, {"node", 2}, {"get_from", 5}});
    CHECK(list[2] == nlohmann::json{{"item", "y"}, {"node", 5}, {"drop", true}});
    CHECK(list[3].at("item") == "x");
  }

  TEST_CASE("plan moves: items that left the catalog are dropped where they are") {
    const Folder folder;
    folder.write_plan(small());
    const std::vector<std::string> later{"x"};
    Placement next({2, 5}, 1);
    next.put(0, placement::everywhere);
    const PlanMoves moves =
        moves_from(read_placement(folder.file, "hrcs"), next, placement::Items(1, 10), later);
    CHECK(moves_list(moves, later) == nlohmann::json{{{"item", "y"}, {"node", 5}, {"drop", true}}});
    CHECK(moves.removed_ids == std::vector<std::string>{"y"});  // z was on no node
  }

  TEST_CASE("plan file: items on no node are listed and read back") {
    const Folder folder;
    folder.write_plan(small());
    CHECK(known_part(read_placement(folder.file, "hrcs"), 3, ids) == small());
  }
}

}  // namespace
