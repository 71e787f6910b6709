#include "router/request/held_blocks.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

// The first block is at 3 and 4; of four others the first is at 2 and 4, the second at 2, the third nowhere,
// the last at 4.
BlocksFound found() { return {1, {2, 2, 1, 0, 1}, {3, 4, 2, 4, 2, 4}, {1, 2, 3, 4, 5}}; }

TEST_CASE("each block has its own holders and uses") {
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

TEST_CASE("an answer whose parts do not fit together is none") {
  CHECK_FALSE(HeldBlocks::of(found(), 4, 0.25).has_value());
  BlocksFound one_holder_less = found(), one_use_less = found();
  one_holder_less.holders.pop_back();
  one_use_less.uses.pop_back();
  CHECK_FALSE(HeldBlocks::of(one_holder_less, 5, 0.25).has_value());
  CHECK_FALSE(HeldBlocks::of(one_use_less, 5, 0.25).has_value());
  CHECK(HeldBlocks::of({}, 0, 0.25).has_value());
}

TEST_CASE("the best holder is the one that has most of a plan's blocks") {
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  CHECK(held->best_holder(0, 1) == 3);
  CHECK(held->best_holder(1, 4) == 2);  // two, as 4 has, but lower
  CHECK(held->best_holder(3, 1) == 0);
  CHECK(held->best_holder(5, 0) == 0);
}

TEST_CASE("what is held here costs nothing, what is held elsewhere a quarter") {
  const auto held = HeldBlocks::of(found(), 5, 0.25);
  CHECK(held->missing(1, 4) == 0);
  CHECK(held->missing(1, 3) == 0.25);
  CHECK(held->missing(3, 4) == 1);
}

}  // namespace
}  // namespace troupe::router
