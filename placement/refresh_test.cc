#include "placement/refresh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "placement/hrcs.h"
#include "placement/spread.h"

namespace troupe::placement {
namespace {

// Ten items of 10 bytes on three nodes; 0 and 1 are everywhere.
struct Fixture {
  Items items{10, 10};
  Shards shards{{1, 2, 3}};
  Placement placement{{1, 2, 3}, 10};
  RefreshLimits limits{
      .hot_frequency = 10, .everywhere_bytes_max = 20, .memory_bytes = 1'000, .copied_bytes_max = 1'000};

  Fixture() {
    for (ItemNumber item = 0; item < 10; ++item)
      placement.put(item, item < 2 ? everywhere : shards.owner(item));
  }
  std::vector<Change> step(const std::vector<Heat>& heat, const CatalogNews& news = {}) {
    const std::vector<Change> changes = refresh(placement, items, shards, heat, news, limits);
    apply(placement, changes);
    return changes;
  }
};

TEST_CASE("a burst takes the place of the coldest item that is everywhere") {
  Fixture f;
  const Place home = f.placement.place(7);
  const std::vector<Change> changes = f.step({{0, 30}, {1, 12}, {7, 100}, {8, 9}});
  CHECK(changes == std::vector<Change>{{1, everywhere, f.shards.owner(1)}, {7, home, everywhere}});
}

TEST_CASE("one that is only a little hotter does not push another out") {
  Fixture f;
  CHECK(f.step({{0, 30}, {1, 12}, {7, 23}}).empty());
  CHECK(f.step({{0, 30}, {1, 12}, {7, 25}}).size() == 2);
}

TEST_CASE("what cooled down goes back to its shard, well below where it came in") {
  Fixture f;
  CHECK(f.step({{0, 30}, {1, 5}}).empty());
  CHECK(f.step({{0, 30}, {1, 4.9}}) == std::vector<Change>{{1, everywhere, f.shards.owner(1)}});
  CHECK(f.step({}) == std::vector<Change>{{0, everywhere, f.shards.owner(0)}});
}

TEST_CASE("heat that swings around the threshold moves an item once, not each time") {
  Fixture f;
  std::size_t changes = 0;
  for (int i = 0; i < 50; ++i)
    changes += f.step({{0, 30}, {1, 4}, {5, i % 2 == 0 ? 10.5 : 6.0}, {6, i % 2 == 0 ? 7.0 : 11.0}}).size();
  CHECK(changes == 2);  // 1 leaves, 5 enters and stays; 6 is not twice as hot as 5
}

TEST_CASE("new items are added, removed ones dropped, and what is removed is not hot") {
  Fixture f;
  f.items = Items(12, 10);
  f.placement.add_items(2);
  const std::vector<ItemNumber> added{10, 11}, removed{3};
  const std::vector<Change> changes = f.step({{0, 30}, {1, 30}, {3, 500}}, {added, removed});
  CHECK(changes == std::vector<Change>{{3, Place(f.shards.owner(3)), nowhere},
                                       {10, nowhere, f.shards.owner(10)},
                                       {11, nowhere, f.shards.owner(11)}});
}

TEST_CASE("a new item that is hot at once goes everywhere at once") {
  Fixture f;
  f.limits.everywhere_bytes_max = 30;
  f.placement.put(9, nowhere);
  CHECK(f.step({{0, 30}, {1, 30}, {9, 40}}, {std::array<ItemNumber, 1>{9}, {}}) ==
        std::vector<Change>{{9, nowhere, everywhere}});
}

TEST_CASE("a step copies no more than its bound, hottest first, and the next goes on") {
  Fixture f;
  f.limits.everywhere_bytes_max = 100;
  f.limits.copied_bytes_max = 40;  // two items to two nodes each
  const std::vector<Heat> heat{{0, 90}, {1, 90}, {4, 50}, {5, 70}, {6, 60}, {7, 80}};
  const std::vector<Change> first = f.step(heat), second = f.step(heat);
  REQUIRE(first.size() == 2);
  REQUIRE(second.size() == 2);
  for (const auto& [change, item] : {std::pair{first[0], 7}, {first[1], 5}, {second[0], 6}, {second[1], 4}})
    CHECK(change.item == static_cast<ItemNumber>(item));
  CHECK(f.step(heat).empty());
  f.limits.copied_bytes_max = 1;
  CHECK(f.step({{0, 90}, {1, 90}, {4, 50}, {5, 70}, {6, 60}, {7, 80}, {8, 20}, {9, 20}}).size() == 1);
}

TEST_CASE("where memory is full, sharded items that nobody used give way") {
  Fixture f;
  f.limits.everywhere_bytes_max = 30;
  const std::vector<std::uint64_t> used = bytes_per_node(f.placement, f.items);
  f.limits.memory_bytes = *std::ranges::max_element(used);
  std::vector<Heat> heat{{0, 30}, {1, 30}, {2, 50}};
  for (ItemNumber item = 3; item < 10; ++item) heat.push_back({item, 1});
  CHECK(f.step(heat).empty());  // all of them are used
  heat.resize(3);
  const std::vector<Change> changes = f.step(heat);
  REQUIRE(!changes.empty());
  CHECK(changes.back() == Change{2, f.shards.owner(2), everywhere});
  for (const Change& change : changes) CHECK((change.to == nowhere || change.item == 2));
  for (const std::uint64_t bytes : bytes_per_node(f.placement, f.items))
    CHECK(bytes <= f.limits.memory_bytes);
}

TEST_CASE("the moves of a change are what the placements before and after say") {
  Fixture f;
  const std::vector<Change> all{{7, f.placement.place(7), everywhere},
                                {1, everywhere, f.shards.owner(1)},
                                {4, f.placement.place(4), nowhere}};
  for (const Change& change : all) {
    Placement next = f.placement;
    const std::vector<Move> told = moves_of(f.placement, change);
    apply(next, {&change, 1});
    CHECK(told == moves(f.placement, next));
  }
}

TEST_CASE("under random heat the limits hold, steps are the same every time, and calm heat ends in calm") {
  const std::uint64_t seed = 20261122;
  CAPTURE(seed);
  const Items items(600, 10);
  const Shards shards({1, 2, 3, 4});
  const auto accesses = AccessDistribution::zipf(600, 0.7);
  const RefreshLimits limits{
      .hot_frequency = 50, .everywhere_bytes_max = 400, .memory_bytes = 1'500, .copied_bytes_max = 300};
  Placement placement = place_hot_and_cold(40, accesses, items, {1, 2, 3, 4}, limits.memory_bytes);
  std::vector<Heat> heat;
  for (std::uint64_t round = 0; round < 60; ++round) {
    if (round < 40) {
      heat.clear();
      for (ItemNumber item = 0; item < 600; ++item)
        if (const std::uint64_t random = spread(seed + round * 1'000 + item); random % 5 == 0)
          heat.push_back({item, static_cast<double>(random >> 32) / 0x1p32 * (random % 3 == 0 ? 120 : 30)});
    }
    const std::vector<Change> changes = refresh(placement, items, shards, heat, {}, limits);
    CHECK(refresh(placement, items, shards, heat, {}, limits) == changes);
    std::uint64_t copied = 0, replicated = 0;
    for (const Change& change : changes) {
      for (const Move& move : moves_of(placement, change)) copied += move.gains ? 10 : 0;
      apply(placement, {&change, 1});
    }
    for (ItemNumber item = 0; item < 600; ++item) replicated += placement.place(item) == everywhere ? 10 : 0;
    CHECK(copied <= limits.copied_bytes_max);
    CHECK(replicated <= limits.everywhere_bytes_max);
    for (const std::uint64_t bytes : bytes_per_node(placement, items)) CHECK(bytes <= limits.memory_bytes);
    if (round == 59) CHECK(changes.empty());
  }
}

}  // namespace
}  // namespace troupe::placement
