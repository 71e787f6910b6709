#include "router/precompute/item_assignment.h"

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>

namespace troupe::router {
namespace {

using Nodes = std::vector<NodeId>;

TEST_CASE("item assignment: listed items are where the plan says, the others on one node each, evenly") {
  const ItemAssignment places({9, 3, 5},
                              {{"hot", placement::everywhere}, {"b", 1}, {"cold", placement::nowhere}});
  CHECK(places.nodes_of("hot") == Nodes{3, 5, 9});
  CHECK(places.nodes_of("b") == Nodes{5});
  CHECK(places.nodes_of("cold").empty());
  std::map<NodeId, int> count;
  for (int i = 0; i < 3000; ++i) {
    const Nodes nodes = places.nodes_of("item " + std::to_string(i));
    REQUIRE(nodes.size() == 1);
    ++count[nodes[0]];
  }
  for (const NodeId node : {3, 5, 9}) CHECK(count[node] > 800);
}

TEST_CASE("item assignment: it is the same on every router, and nodes that join or leave move few items") {
  const ItemAssignment four({1, 2, 3, 4}), again({4, 3, 2, 1}), five({1, 2, 3, 4, 5});
  int moved = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string item = std::to_string(i);
    CHECK(four.nodes_of(item) == again.nodes_of(item));
    moved += four.nodes_of(item) != five.nodes_of(item);
  }
  CHECK(moved < 600);
}

TEST_CASE("item assignment: replicated means every node, and the node list is validated") {
  CHECK(ItemAssignment::replicated({2, 1}).nodes_of("x") == Nodes{1, 2});
  CHECK_THROWS_AS(ItemAssignment({}), std::invalid_argument);
  CHECK_THROWS_AS(ItemAssignment({1, 1}), std::invalid_argument);
}

TEST_CASE("item assignment: on other nodes, listed items stay or go to their shard if the node is gone") {
  const ItemAssignment places(
      {3, 5, 9}, {{"hot", placement::everywhere}, {"b", 1}, {"c", 2}, {"cold", placement::nowhere}});
  const ItemAssignment more = places.over({3, 5, 9, 12}), fewer = places.over({3, 9});
  CHECK(more.nodes_of("hot") == Nodes{3, 5, 9, 12});
  CHECK(more.nodes_of("b") == Nodes{5});
  CHECK(fewer.nodes_of("c") == Nodes{9});
  CHECK(fewer.nodes_of("b").size() == 1);
  CHECK(fewer.nodes_of("b") != Nodes{5});
  CHECK(fewer.nodes_of("cold").empty());
  CHECK(places.over({9, 5, 3}).nodes_of("b") == Nodes{5});
  CHECK(places.listed() == 4);
  CHECK(ItemAssignment::replicated({1, 2}).over({2, 3}).nodes_of("x") == Nodes{2, 3});
}

}  // namespace
}  // namespace troupe::router
