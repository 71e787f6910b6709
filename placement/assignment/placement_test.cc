#include "placement/assignment/placement.h"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>

#include "kernels/base/hash.h"

namespace troupe::placement {
namespace {

// The nodes that hold each item.
using Holders = std::vector<std::set<NodeNumber>>;
Holders holders(const Placement& placement) {
  Holders all(placement.items());
  for (std::size_t item = 0; item < all.size(); ++item)
    for (std::size_t node = 0; node < placement.nodes().size(); ++node)
      if (placement.holds(node, static_cast<ItemNumber>(item))) all[item].insert(placement.nodes()[node]);
  return all;
}

Placement random_placement(std::vector<NodeNumber> nodes, std::uint64_t items, std::uint64_t seed) {
  Placement placement(std::move(nodes), items);
  for (std::uint64_t item = 0; item < items; ++item) {
    const std::uint64_t random = spread(seed + item);
    const std::size_t choice = random % (placement.nodes().size() + 2);
    const NodeIndex place = choice < placement.nodes().size()    ? static_cast<NodeIndex>(choice)
                            : choice == placement.nodes().size() ? everywhere
                                                                 : nowhere;
    placement.put(static_cast<ItemNumber>(item), place);
  }
  return placement;
}

TEST_CASE("bytes per node: a node holds the replicated items and its own") {
  const Items items({10, 20, 30, 40}, {1, 2, 3, 4});
  Placement placement({7, 3}, 4);
  CHECK(placement.nodes() == std::vector<NodeNumber>{3, 7});
  placement.put(0, everywhere);
  placement.put(1, 1);
  placement.put(2, 1);
  CHECK(bytes_per_node(placement, items) == std::vector<std::uint64_t>{10, 60});
  CHECK(items.total_bytes() == 100);
  placement.put(3, everywhere);
  CHECK(bytes_per_node(placement, items) == std::vector<std::uint64_t>{50, 100});
}

TEST_CASE("moves: equal placements give no moves") {
  const Placement placement = random_placement({1, 2, 3}, 50, 4);
  CHECK(moves(placement, placement).empty());
}

TEST_CASE("moves: a gain names a holder that stays or 0, and comes before the loss") {
  Placement old({1, 2}, 2), next({1, 2}, 2);
  old.put(0, 0);
  next.put(0, 1);
  next.put(1, 0);
  CHECK(moves(old, next) == std::vector<PlacementMove>{{0, 2, true, 1}, {0, 1, false, 0}, {1, 1, true, 0}});
}

TEST_CASE("moves: a joining node gets the replicated items; a node that left neither drops nor gives items") {
  Placement old({1, 2}, 2), next({2, 3}, 2);
  for (Placement* placement : {&old, &next}) placement->put(0, everywhere);
  old.put(1, 0);
  next.put(1, 0);  // index 0 is node 1 in the old placement and node 2 in the next one
  CHECK(moves(old, next) == std::vector<PlacementMove>{{0, 3, true, 2}, {1, 2, true, 0}});
}

TEST_CASE("moves: applied to the old holders they give the new ones, and each has an effect") {
  const std::vector<std::vector<NodeNumber>> clusters{{1, 2, 3}, {1, 2, 3, 9}, {2}, {4, 5}};
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const Placement old = random_placement(clusters[seed % 4], 60, spread(seed));
    const Placement next = random_placement(clusters[seed / 4 % 4], 60, spread(seed + 1000));
    Holders held = holders(old);
    const std::set<NodeNumber> here(next.nodes().begin(), next.nodes().end());
    const Holders before = held;
    for (const PlacementMove& move : moves(old, next)) {
      if (move.gains) {
        CHECK(held[move.item].insert(move.node).second);
        if (move.from != 0) CHECK((before[move.item].contains(move.from) && here.contains(move.from)));
      } else {
        CHECK(held[move.item].erase(move.node) == 1);
      }
    }
    for (auto& nodes : held) std::erase_if(nodes, [&](NodeNumber node) { return !here.contains(node); });
    CHECK(held == holders(next));
  }
}

TEST_CASE("placement: invalid items and nodes are refused") {
  CHECK_THROWS_AS(Items(0, 10), std::invalid_argument);
  CHECK_THROWS_AS(Items(10, 0), std::invalid_argument);
  CHECK_THROWS_AS(Items({1, 0}, {1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(Items({1, 2}, {1}), std::invalid_argument);
  CHECK_THROWS_AS(validated_nodes({}), std::invalid_argument);
  CHECK_THROWS_AS(validated_nodes({1, 0}), std::invalid_argument);
  CHECK_THROWS_AS(validated_nodes({2, 1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(validated_nodes(std::vector<NodeNumber>(nodes_max + 1, 1)), std::invalid_argument);
}

}  // namespace
}  // namespace troupe::placement
