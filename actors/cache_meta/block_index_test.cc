#include "actors/cache_meta/block_index.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "actors/testing/block_index_test.h"

namespace troupe::actors {
namespace {

using Nodes = std::vector<NodeId>;

BlockName name(std::uint8_t n, std::uint8_t last = 0) {
  BlockName result;
  result.bytes[0] = n;
  result.bytes[31] = last;
  return result;
}
BlockEntry item(std::uint8_t n, std::uint64_t generation = 1) {
  return {name(n), SegmentKind::item, "item " + std::to_string(n), 4, generation};
}
BlockEntry user(std::uint8_t n, const std::string& owner, std::uint64_t generation = 1) {
  return {name(n), SegmentKind::user, owner, 40, generation};
}
Nodes all(const BlockIndex& index, std::uint8_t n) { return holders(index, name(n), {}, 0, 99); }

TEST_CASE("block index: blocks looked up together are answered in order") {
  BlockIndex index(10);
  for (const NodeId node : {3, 1, 2}) index.add(node, item(1));
  index.add(4, item(2));
  const std::vector<BlockQuery> asked{{name(2)}, {name(7)}, {name(1)}, {name(2)}};
  std::vector<std::uint8_t> counts;
  Nodes found;
  index.find_holders(asked, Nodes{2}, 0, 2, counts, found);
  CHECK(counts == std::vector<std::uint8_t>{1, 0, 2, 1});
  CHECK(found == Nodes{4, 2, 1, 4});
}

TEST_CASE("block index: a block has several holders, each with its own generation") {
  BlockIndex index(10);
  for (const NodeId node : {3, 1, 2}) CHECK(index.add(node, item(1, 10 * node)));
  CHECK(all(index, 1) == Nodes{1, 2, 3});
  CHECK(index.generation_of(name(1), 2) == 20);
  CHECK(index.blocks() == 1);
  CHECK(index.holdings() == 3);
  CHECK(!index.add(2, item(1, 19)));  // older
  CHECK(!index.remove(2, {name(1), 19}));
  CHECK(!index.remove(4, {name(1), 99}));
  CHECK(index.remove(2, {name(1), 20}));
  CHECK(all(index, 1) == Nodes{1, 3});
  CHECK(index.check_bounds() == "");
}

TEST_CASE("block index: preferred holders come first in their order, the others rotate by request") {
  BlockIndex index(10);
  for (NodeId node = 1; node <= 5; ++node) index.add(node, item(1));
  CHECK(holders(index, name(1), Nodes{4, 9, 2, 4}, 0, 4) == Nodes{4, 2, 1, 3});
  CHECK(holders(index, name(1), {}, 7, 3) == Nodes{3, 4, 5});
  CHECK(holders(index, name(1), {}, 9, 3) == Nodes{5, 1, 2});
  CHECK(holders(index, name(1), Nodes{1, 2, 3}, 0, 2) == Nodes{1, 2});
  CHECK(holders(index, name(1), Nodes{1}, 0, 0).empty());
  index.set_named(4, false);
  CHECK(holders(index, name(1), Nodes{4, 2}, 3, 9) == Nodes{2, 5, 1, 3});
  CHECK(!index.held_by_any(name(1), Nodes{4, 9}));
  CHECK(index.held_by_any(name(1), Nodes{4, 5}));
  index.set_named(4, true);
  CHECK(holders(index, name(1), {}, 3, 1) == Nodes{4});
}

TEST_CASE("block index: a walk sweeps unconfirmed blocks of its node only") {
  BlockIndex index(10);
  for (std::uint8_t n = 1; n <= 4; ++n) index.add(1, item(n, n));
  index.add(2, item(1));
  index.begin_walk(1);
  index.add(1, item(2, 2));
  index.add(1, item(4, 9));  // again, with a younger generation
  index.add(1, item(5, 7));
  index.end_walk(1);
  CHECK(all(index, 1) == Nodes{2});
  CHECK(all(index, 2) == Nodes{1});
  CHECK(all(index, 3).empty());
  CHECK(index.generation_of(name(4), 1) == 9);
  index.sweep(100);
  CHECK(index.holdings(1) == 3);
  CHECK(index.check_bounds() == "");
}

TEST_CASE("block index: a forgotten node loses all its blocks") {
  BlockIndex index(10);
  for (const NodeId node : {1, 2}) {
    index.add(node, user(1, "ann"));
    index.add(node, user(2, "ann"));
    index.add(node, user(3, "bob"));
  }
  index.forget_node(1);
  CHECK(all(index, 3) == Nodes{2});
  index.sweep(3);
  CHECK(index.users() == 2);
  CHECK(index.holdings() == 3);
  index.forget_node(2);
  index.sweep(100);
  CHECK(index.blocks() == 0);
  CHECK(index.coldest().empty());
  CHECK(index.check_bounds() == "");
}

TEST_CASE("block index: stale blocks are hidden, return when added again, and are erased a few at a time") {
  BlockIndex index(10);
  for (std::uint8_t n = 1; n <= 6; ++n) index.add(1, user(n, "ann", 50));
  index.add(2, user(1, "ann", 7));
  index.forget_node(1);
  index.add(1, user(2, "ann", 9));  // an older generation than the lost one
  CHECK(all(index, 1) == Nodes{2});
  CHECK(all(index, 2) == Nodes{1});
  CHECK(all(index, 3).empty());
  CHECK(index.generation_of(name(2), 1) == 9);
  CHECK(index.generation_of(name(3), 1) == 0);
  CHECK_FALSE(index.held_by_any(name(3), Nodes{1}));
  CHECK_FALSE(index.held_by_any(name(3), {}));
  CHECK(index.held_by_any(name(2), {}));
  CHECK_FALSE(index.remove(1, {name(3), 60}));
  CHECK(index.holdings(1) == 6);
  index.sweep(2);
  CHECK(index.holdings(1) == 4);
  index.sweep(3);
  CHECK(index.holdings(1) == 2);
  CHECK(index.check_bounds() == "");
  index.sweep(9);
  CHECK(index.holdings(1) == 1);
  index.sweep(9);
  CHECK(index.generation_of(name(2), 1) == 9);
  CHECK(index.blocks() == 2);
}

TEST_CASE("block index: stale blocks do not fill the index") {
  BlockIndex index(2);
  index.add(1, item(1));
  index.add(1, item(2));
  index.forget_node(1);
  CHECK(index.add(1, item(3)));
  CHECK(index.add(2, item(4)));
  CHECK(all(index, 3) == Nodes{1});
}

TEST_CASE("block index: a full index refuses new blocks and still follows known ones") {
  BlockIndex index(2);
  CHECK(index.add(1, item(1)));
  CHECK(index.add(2, item(1)));
  CHECK(!index.add(3, item(1)));
  CHECK(!index.add(1, item(2)));
  CHECK(index.add(2, item(1, 5)));
  CHECK(index.remove(1, {name(1), 1}));
  CHECK(index.add(1, item(2)));
}

TEST_CASE("block index: users are ordered by hotness, and equally cold ones by time known") {
  BlockIndex index(10);
  index.add(1, user(9, "ann"));
  index.add(1, user(1, "bob"));
  index.add(1, user(5, "cid"));
  index.set_frequency("ann", 2);
  index.set_frequency("nobody", 2);
  std::string order;
  for (const auto& cold : index.coldest()) order += cold.block->second.owner->first + " ";
  CHECK(order == "bob cid ann ");
  CHECK(*index.user_after("") == "ann");
  CHECK(*index.user_after("ann") == "ann");
  index.set_frequency("cid", 1);
  CHECK(*index.user_after("ann") == "cid");
  CHECK(*index.user_after("cid") == "ann");
  index.remove(1, {name(5), 1});
  CHECK(*index.user_after("ann") == "ann");
  index.set_frequency("ann", 0);
  CHECK(!index.user_after("ann"));
}

TEST_CASE("block index: a block's only holder may change its owner") {
  BlockIndex index(10);
  index.add(1, user(1, "ann", 1));
  index.add(1, user(1, "bob", 2));
  CHECK(*index.owner_of(name(1)) == "bob");
  CHECK(index.users() == 1);
  index.add(2, user(1, "ann", 1));
  CHECK(*index.owner_of(name(1)) == "bob");
  CHECK(index.holdings() == 2);
}

TEST_CASE("block index: under random changes the index agrees with a plain list") {
  const unsigned seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  BlockIndex index(60);
  std::map<std::pair<std::uint8_t, NodeId>, std::uint64_t> held;
  for (std::uint64_t generation = 1; generation < 20'000; ++generation) {
    const auto n = static_cast<std::uint8_t>(random() % 20);
    const NodeId node = 1 + random() % 5;
    const auto what = random() % 100;
    const std::string owner = std::to_string(n % 7);
    if (what < 50) {
      if (index.add(node, user(n, owner, generation))) held[{n, node}] = generation;
    } else if (what < 90) {
      const auto at = held.find({n, node});
      REQUIRE(index.remove(node, {name(n), generation}) == (at != held.end()));
      if (at != held.end()) held.erase(at);
    } else if (what < 95) {
      index.set_frequency(owner, static_cast<double>(random() % 3));
    } else if (what >= 98) {
      index.forget_node(node);
      std::erase_if(held, [&](const auto& entry) { return entry.first.second == node; });
    } else if (what == 97) {
      index.sweep(random() % 8);
    }
    REQUIRE(index.check_bounds() == "");
    if (generation % 100 == 0) {
      index.sweep(1'000);
      REQUIRE(index.holdings() == held.size());
    }
    REQUIRE(index.holdings() >= held.size());
    REQUIRE(index.coldest().size() == index.blocks());
    const auto at = held.find({n, node});
    REQUIRE(index.generation_of(name(n), node) == (at == held.end() ? 0 : at->second));
  }
}

}  // namespace
}  // namespace troupe::actors
