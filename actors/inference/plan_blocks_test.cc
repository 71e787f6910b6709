#include "actors/inference/plan_blocks.h"

#include <doctest/doctest.h>

#include "actors/testing/inference_bench.h"

namespace troupe::actors {
namespace plan_blocks_test {

using namespace inference_test;

// The plan has blocks 1, 2 and 1 again, and a segment without a block.
struct Blocks {
  Execute execute = Bench::plan(1, {block(1), block(2), block(1), segment(2)});
  PlanBlocks blocks;
  std::vector<BlockWant> wants = blocks.collect_wants(execute);
};

TEST_CASE(
    "plan blocks: a block that two segments name is wanted once, read by both and written by the first") {
  for (const Grant grant : {Grant::read, Grant::write}) {
    Blocks b;
    REQUIRE(b.wants.size() == 2);
    CHECK(b.wants[1].name == name(2));
    CHECK(b.blocks.segments() == std::vector<std::uint32_t>{0, 1});
    REQUIRE(b.blocks.take_grants({{grant, 4, 55, {9}}, {}}));
    const auto kv = b.blocks.take_kv(b.execute.plan);
    CHECK(kv[0].pages == std::vector<std::uint32_t>{9});
    CHECK(kv[0].generation == 4);
    CHECK(kv[2].grant == (grant == Grant::read ? Grant::read : Grant::none));
    CHECK(kv[2].pages.size() == (grant == Grant::read ? 1 : 0));
    CHECK(kv[3].grant == Grant::none);
    CHECK(b.blocks.is_reused(2) == (grant == Grant::read));
    CHECK_FALSE(b.blocks.is_reused(1));
    CHECK_FALSE(b.blocks.is_reused(3));
  }
}

TEST_CASE("plan blocks: grants that do not fit the wants are not taken") {
  Blocks b;
  CHECK_FALSE(b.blocks.take_grants({{Grant::read, 4, 55, {9}}}));
  CHECK_FALSE(b.blocks.holds_grants());
  CHECK_FALSE(b.blocks.is_reused(0));
}

TEST_CASE("plan blocks: a block in flight that is given up is computed, and the others are kept") {
  Blocks b;
  b.blocks.take_grants({{Grant::read, 4, 55, {9}, false, true}, {Grant::read, 5, 56, {8}}});
  CHECK(b.blocks.in_flight());
  b.blocks.stop_awaiting();
  CHECK_FALSE(b.blocks.in_flight());
  CHECK_FALSE(b.blocks.is_reused(0));
  CHECK(b.blocks.is_reused(1));
  CHECK(b.blocks.holds_grants());
  b.blocks.release();
  CHECK_FALSE(b.blocks.holds_grants());
  CHECK(b.blocks.take_kv(b.execute.plan)[1].grant == Grant::none);
}

TEST_CASE("plan blocks: the grants' pages move to the batch, and the outcomes need none of them") {
  Blocks b;
  std::vector<BlockGrant> grants{{Grant::write, 4, 0, {9}}, {Grant::read, 5, 56, {8}, true}};
  const std::uint32_t* const pages = grants[1].pages.data();
  b.blocks.take_grants(std::move(grants));
  CHECK(b.blocks.take_kv(b.execute.plan)[1].pages.data() == pages);
  BatchReply done = reply(4);
  CHECK(b.blocks.outcomes(b.execute.blocks, done) ==
        std::vector<BlockOutcome>{{name(1), 4, Outcome::written, 88}, {name(2), 5, Outcome::done, 0}});
  done.corrupt = {1};
  CHECK(b.blocks.outcomes(b.execute.blocks, done).at(1).outcome == Outcome::corrupt);
}

}  // namespace plan_blocks_test
}  // namespace troupe::actors
