#include "router/precompute/current_assignment.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

using Nodes = std::vector<NodeId>;

Item item(const std::string& id, std::uint8_t content = 1) {
  Item result;
  result.id = id;
  result.block.bytes[0] = content;
  return result;
}

// A window of 100 accesses: an item is hot from 20 on, until there are fewer than 10. The plan has
// "hot" on all nodes.
CurrentAssignment places(std::vector<NodeId> nodes = {1, 2, 3}) {
  return CurrentAssignment(
      {.hot_share = 0.2, .window = 100, .away_after = {1'000}},
      std::make_shared<const ItemAssignment>(
          std::move(nodes),
          ItemAssignment::Listed{{"hot", placement::everywhere}, {"out", placement::nowhere}, {"one", 0}}));
}

int touch(CurrentAssignment& places, const Item& item, int times) {
  int changes = 0;
  for (int i = 0; i < times; ++i) changes += places.touch(item);
  return changes;
}

TEST_CASE("item assignment: an item belongs to all nodes while it is hot, then to its planned node") {
  CurrentAssignment p = places();
  CHECK(p.nodes_of("one") == Nodes{1});
  CHECK(touch(p, item("one"), 19) == 0);
  CHECK(p.nodes_of("one") == Nodes{1});
  CHECK(touch(p, item("one"), 30) == 2);  // once more after 25 accesses
  CHECK(p.nodes_of("one") == Nodes{1, 2, 3});
  CHECK(p.hot() == 1);
  CHECK(touch(p, item("hot"), 90) == 0);  // it is there already
  CHECK(p.hot() == 1);
  CHECK(touch(p, item("hot"), 1) == 0);
  CHECK(p.hot() == 0);
  CHECK(p.nodes_of("one") == Nodes{1});
  CHECK(p.nodes_of("hot") == Nodes{1, 2, 3});
  CHECK(touch(p, item("out"), 20) == 1);
  CHECK(p.nodes_of("out") == Nodes{1, 2, 3});
  CHECK(p.check_bounds() == "");
}

TEST_CASE("item assignment: without a decision a hot item has the documented share") {
  CHECK(RefreshConfig{}.hot_share == placement::HotItemsConfig{}.hot_share);
}

TEST_CASE("item assignment: a hot item with new content is brought once more") {
  CurrentAssignment p = places();
  CHECK(touch(p, item("one"), 25) == 1);
  CHECK(touch(p, item("one", 2), 5) == 1);
  CHECK(touch(p, item("one", 2), 5) == 0);
  CHECK(touch(p, item("one", 2), 30) == 1);  // it may have been evicted
}

TEST_CASE(
    "item assignment: with a decided threshold no item is hot before, and each decision applies at once") {
  CurrentAssignment p(
      {.hot_share = 0.2, .window = 100, .replication = {.on = true}},
      std::make_shared<const ItemAssignment>(Nodes{1, 2, 3}, ItemAssignment::Listed{{"one", 0}}));
  CHECK(touch(p, item("one"), 40) == 0);
  CHECK(p.accesses() == std::vector<placement::AccessClass>{{40, 1}});
  p.set_hot_count(30);
  CHECK(p.nodes_of("one") == Nodes{1});
  CHECK(touch(p, item("one"), 1) == 1);
  CHECK(p.nodes_of("one") == Nodes{1, 2, 3});
  p.set_hot_count(90);  // it stays hot with half of it
  CHECK(p.nodes_of("one") == Nodes{1});
  CHECK(p.hot() == 0);
  p.set_hot_count(0);
  CHECK(touch(p, item("one"), 100) == 0);
  CHECK(p.check_bounds() == "");
}

TEST_CASE("item assignment: blocks of a node away for long belong to others, and no other item moves") {
  CurrentAssignment p = places(), full = places();
  CHECK_FALSE(p.see({0}, 2, false));
  CHECK_FALSE(p.see({999}, 2, false));
  CHECK_FALSE(p.see({999}, 1, true));
  CHECK(p.see({1'000}, 2, false));
  CHECK_FALSE(p.see({1'001}, 2, false));
  CHECK(p.nodes_of("hot") == Nodes{1, 3});
  CHECK(p.nodes_of("out").empty());
  int moved = 0, to_1 = 0;
  for (int n = 0; n < 300; ++n) {
    const std::string id = "item " + std::to_string(n);
    const Nodes before = full.nodes_of(id), now = p.nodes_of(id);
    REQUIRE(now.size() == 1);
    CHECK(now != Nodes{2});
    if (before != Nodes{2}) CHECK(now == before);
    moved += now != before;
    to_1 += now != before && now == Nodes{1};
  }
  CHECK(moved > 60);
  CHECK(to_1 > moved / 4);
  CHECK(to_1 < moved * 3 / 4);
  CHECK(p.see({5'000}, 2, true));
  CHECK_FALSE(p.see({5'001}, 2, true));
  CHECK_FALSE(p.see({5'002}, 2, false));  // silent again
  for (int n = 0; n < 300; ++n) {
    const std::string id = "item " + std::to_string(n);
    CHECK(p.nodes_of(id) == full.nodes_of(id));
  }
}

TEST_CASE(
    "item assignment: another plan for the same nodes replaces the plan; hot items and absent nodes stay") {
  CurrentAssignment p = places();
  touch(p, item("one"), 20);
  CHECK(touch(p, item("hot"), 20) == 0);
  p.see({0}, 3, false);
  p.see({1'000}, 3, false);
  const auto plan = [](const Nodes& nodes) {
    return std::make_shared<const ItemAssignment>(nodes, ItemAssignment::Listed{{"hot", 0}, {"one", 1}});
  };
  CHECK_FALSE(p.replace(plan({1, 2})));
  CHECK(p.nodes_of("hot") == Nodes{1, 2});
  CHECK(p.replace(plan({1, 2, 3})));
  CHECK(p.nodes_of("hot") == Nodes{1});
  CHECK(p.nodes_of("one") == Nodes{1, 2});
  CHECK(p.nodes_of("out").size() == 1);  // not listed any more
  CHECK(touch(p, item("hot"), 1) == 1);  // hot before, and now no longer planned for all nodes
  CHECK(p.nodes_of("hot") == Nodes{1, 2});
  CHECK(p.hot() == 2);
  CHECK(touch(p, item("hot"), 5) == 0);
  CHECK_FALSE(CurrentAssignment({}, nullptr).replace(plan({1})));
}

TEST_CASE("item assignment: with all nodes away, or without a plan, no item belongs to a node") {
  CurrentAssignment p = places({1});
  p.see({0}, 1, false);
  CHECK(p.see({1'000}, 1, false));
  CHECK(p.nodes_of("item").empty());
  CurrentAssignment none({.hot_share = 0.2, .window = 100}, nullptr);
  CHECK(touch(none, item("one"), 100) == 0);
  CHECK(none.nodes_of("one").empty());
}

}  // namespace
}  // namespace troupe::router
