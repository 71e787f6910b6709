#include "router/request/held_blocks.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

// The first block is at nodes 3 and 4. Of the next four, the first is at 2 and 4, the second at 2,
// the third nowhere, the last at 4.
BlocksFound found() { return {1, {2, 2, 1, 0, 1}, {3, 4, 2, 4, 2, 4}, {1, 2, 3, 4, 5}}; }

TEST_CASE("held blocks: each block has its own holders and uses") {
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  REQUIRE(held.has_value());
  CHECK(held->holders(0).size() == 2);
  CHECK(held->holders(1).back() == 4);
  CHECK(held->holders(2).front() == 2);
  CHECK(held->holders(3).empty());
  CHECK(held->holders(4).front() == 4);
  CHECK(held->is_kept(4));
  CHECK_FALSE(held->is_kept(3));
  CHECK(held->uses(3) == 4);
}

TEST_CASE("held blocks: an answer whose parts do not match is rejected") {
  CHECK_FALSE(HeldBlocks::of(found(), 4, 0.25).has_value());
  BlocksFound one_holder_less = found(), one_use_less = found();
  one_holder_less.holders.pop_back();
  one_use_less.uses.pop_back();
  CHECK_FALSE(HeldBlocks::of(one_holder_less, 5, 0.25).has_value());
  CHECK_FALSE(HeldBlocks::of(one_use_less, 5, 0.25).has_value());
  CHECK(HeldBlocks::of({}, 0, 0.25).has_value());
}

TEST_CASE("held blocks: the best holder has most of a plan's blocks") {
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  CHECK(held->best_holder(0, 1) == 3);
  CHECK(held->best_holder(1, 4) == 2);  // two blocks, as many as node 4, but the lower node
  CHECK(held->best_holder(3, 1) == 0);
  CHECK(held->best_holder(5, 0) == 0);
}

TEST_CASE("held blocks: a block held here costs nothing, one held elsewhere a quarter") {
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  CHECK(held->missing(1, 4) == 0);
  CHECK(held->missing(1, 3) == 0.25);
  CHECK(held->missing(3, 4) == 1);
}

TEST_CASE("held blocks: only the blocks that are still asked for keep their holders and uses") {
  auto held = HeldBlocks::of(found(), 5, 0.25);
  held->keep_only({true, false, true, false, true});
  CHECK(held->size() == 3);
  CHECK(held->holders(0).size() == 2);
  CHECK(held->holders(1).front() == 2);
  CHECK(held->holders(2).front() == 4);
  CHECK(held->uses(1) == 3);
  CHECK(held->missing(2, 4) == 0);
  CHECK(held->best_holder(0, 3) == 4);
  CHECK(held->found().holders == std::vector<NodeId>{3, 4, 2, 4});
}

TEST_CASE("held blocks: the missing item blocks of a candidate are found by their place in the question") {
  // Blocks in question: one of another candidate; a user's, and three items'.
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  Candidate candidate;
  const auto add = [&](SegmentKind kind, const std::string& owner, bool named) {
    candidate.plan.segments.push_back({.kind = kind, .tokens = {1}});
    candidate.blocks.push_back({named ? std::optional<BlockName>(BlockName{}) : std::nullopt, owner, 0});
  };
  add(SegmentKind::system, "", true);
  add(SegmentKind::user, "u", true);
  for (const char* item : {"a", "b", "c"}) add(SegmentKind::item, item, true);
  add(SegmentKind::item, "", false);  // a reused span
  std::vector<bool> kept(5, true);
  const auto every = [](std::string_view) { return true; };
  const auto none_but_a = [](std::string_view item) { return item == "a"; };
  CHECK(drop_missing_items(candidate, 1, *held, none_but_a, kept).empty());
  CHECK(kept == std::vector<bool>(5, true));
  CHECK(drop_missing_items(candidate, 1, *held, every, kept) == std::vector<std::uint8_t>{0, 1, 0});
  CHECK(kept == std::vector<bool>{true, true, true, false, true});
  const auto all = HeldBlocks::of({1, {1, 1, 1, 1}, {3, 4, 2, 4}, {1, 2, 3, 4}}, 4, 0.25);
  std::vector<bool> all_kept(4, true);
  CHECK(drop_missing_items(candidate, 0, *all, every, all_kept).empty());
  CHECK(all_kept == std::vector<bool>(4, true));
}

}  // namespace
}  // namespace troupe::router
