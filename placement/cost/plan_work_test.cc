#include "placement/cost/plan_work.h"

#include <doctest/doctest.h>

namespace troupe::placement {
namespace {

using kernels::Plan;
using kernels::Sees;
using kernels::SegmentKind;

Plan three_segments() {
  Plan plan;
  plan.segments = {{SegmentKind::system, {1, 2, 3}, 0, {}},
                   {SegmentKind::item, {4, 5}, 3, {0}},
                   {SegmentKind::user, {6, 7, 8, 9}, 5, {0, 1}}};
  plan.readouts = {{2, 3, {1}}};
  return plan;
}

TEST_CASE("a plan's pass counts what is reused as read, and the rest with what it sees") {
  CHECK(tokens_seen(three_segments()) == std::vector<std::uint64_t>{0, 3, 5});
  const Pass pass = pass_of(three_segments(), [](std::size_t i) { return i == 1; });
  CHECK(pass.new_tokens == 7);
  CHECK(pass.reused_tokens == 2);
  CHECK(pass.pairs == 6 + 4 * 5 + 10);
  CHECK(pass.readouts == 1);
}

TEST_CASE("tokens that stand in the place of others are seen once") {
  Plan plan = three_segments();
  plan.segments.insert(plan.segments.begin() + 2, {SegmentKind::item, {4}, 3, {0}, 0, {1, 0}});
  plan.segments.back().sees = Sees::all_before(3);
  CHECK(tokens_seen(plan) == std::vector<std::uint64_t>{0, 3, 3, 5});
}

TEST_CASE("a segment sees nothing that comes after it") {
  Plan plan = three_segments();
  plan.segments[1].sees.add({1, 90});
  plan.segments[0].sees.add({7, 8});
  CHECK(tokens_seen(plan) == std::vector<std::uint64_t>{0, 3, 5});
}

}  // namespace
}  // namespace troupe::placement
