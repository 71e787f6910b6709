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

}  // namespace
}  // namespace troupe::router
