#include "router/request/held_blocks.h"

#include <doctest/doctest.h>

namespace troupe::router {
namespace {

// The user's block is at 3 and 4; of four items the first is at 2 and 4, the second at 2, the third nowhere,
// the last at 4.
BlocksFound found() { return {1, {3, 4}, {2, 1, 0, 1}, {2, 4, 2, 4}}; }

std::vector<ItemView> items() {
  static const std::vector<Token> tokens(8, 1);
  std::vector<ItemView> list(4);
  for (ItemView& item : list) item.tokens = tokens;
  return list;
}

TEST_CASE("each item has its own holders") {
  const auto held = HeldBlocks::of(found(), 4, 0.25);
  REQUIRE(held.has_value());
  CHECK(held->item_holders(0).size() == 2);
  CHECK(held->item_holders(1).front() == 2);
  CHECK(held->item_holders(2).empty());
  CHECK(held->item_holders(3).front() == 4);
}

TEST_CASE("an answer whose parts do not fit together is none") {
  CHECK_FALSE(HeldBlocks::of(found(), 3, 0.25).has_value());
  BlocksFound short_of_one = found();
  short_of_one.item_holders.pop_back();
  CHECK_FALSE(HeldBlocks::of(short_of_one, 4, 0.25).has_value());
  CHECK(HeldBlocks::of({}, 0, 0.25).has_value());
}

TEST_CASE("the best holder is the one that has what the prefix reuses") {
  const auto held = HeldBlocks::of(found(), 4, 0.25);
  CHECK(held->best_holder(Prefix::user) == 3);
  CHECK(held->best_holder(Prefix::item) == 2);  // two, as 4 has, but lower
  CHECK(held->best_holder(Prefix::none) == 0);
  CHECK(HeldBlocks::of({1, {}, {0}}, 1, 0.25)->best_holder(Prefix::user) == 0);
  CHECK(HeldBlocks::of({1, {}, {0}}, 1, 0.25)->best_holder(Prefix::item) == 0);
}

TEST_CASE("what is held here costs nothing, what is held elsewhere a quarter") {
  const auto held = HeldBlocks::of(found(), 4, 0.25);
  CHECK(held->new_tokens(4, Prefix::user, 100, items()) == 32);
  CHECK(held->new_tokens(2, Prefix::user, 100, items()) == 25 + 32);
  CHECK(held->new_tokens(2, Prefix::item, 100, items()) == 100 + 0 + 0 + 8 + 2);
  CHECK(held->new_tokens(9, Prefix::item, 100, items()) == 100 + 2 + 2 + 8 + 2);
  CHECK(held->new_tokens(4, Prefix::none, 100, items()) == 132);
}

}  // namespace
}  // namespace troupe::router
