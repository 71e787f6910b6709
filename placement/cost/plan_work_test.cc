#include "placement/cost/plan_work.h"

#include <doctest/doctest.h>

#include "placement/cost/cost_model.h"

namespace troupe::placement {
namespace {

using kernels::Plan;
using kernels::SegmentKind;
using kernels::VisibleSegments;

Plan three_segments() {
  Plan plan;
  plan.segments = {{SegmentKind::system, {1, 2, 3}, 0, {}},
                   {SegmentKind::item, {4, 5}, 3, {0}},
                   {SegmentKind::user, {6, 7, 8, 9}, 5, {0, 1}}};
  plan.readouts = {{2, 3, {1}}};
  return plan;
}

TEST_CASE("plan work: reused segments are counted as read, the others with what they see") {
  CHECK(tokens_seen(three_segments()) == std::vector<std::uint64_t>{0, 3, 5});
  const Pass pass = pass_of(three_segments(), [](std::size_t i) { return i == 1; });
  CHECK(pass.new_tokens == 7);
  CHECK(pass.reused_tokens == 2);
  CHECK(pass.pairs == 6 + 4 * 5 + 10);
  CHECK(pass.readouts == 1);
}

TEST_CASE("plan work: tokens that stand for others are counted once") {
  Plan plan = three_segments();
  plan.segments.insert(plan.segments.begin() + 2, {SegmentKind::item, {4}, 3, {0}, 0, {1, 0}});
  plan.segments.back().sees = VisibleSegments::all_before(3);
  CHECK(tokens_seen(plan) == std::vector<std::uint64_t>{0, 3, 3, 5});
}

TEST_CASE("plan work: a repair counts chosen tokens fully and the others in the first layers") {
  Plan plan;
  plan.segments = {{SegmentKind::item, {1, 2, 3, 4}, 0, {}},
                   {SegmentKind::user, {5, 6, 7, 8}, 0, {}},
                   {SegmentKind::item, {1, 2, 3, 4}, 9, {}},
                   {SegmentKind::user, {5, 6, 7, 8}, 13, {}}};
  plan.repair = {.reused_spans = {{2, 0, 0}, {3, 1, 1}}, .budgets = {1, 3}, .always = {3}, .attention = 1};
  using Counts = std::vector<std::uint64_t>;
  CHECK(tokens_computed(plan, 0) == Counts{4, 4, 2, 3});
  // Half of a layer of two, for the 2 and the 1 tokens that are not chosen.
  CHECK(tokens_computed(plan, 2) == Counts{4, 4, 3, 3});
  plan.repair.exact_layers = 2;
  CHECK(tokens_computed(plan, 2) == Counts{4, 4, 3, 4});
  CHECK(tokens_computed(plan, 1) == Counts{4, 4, 4, 4});
  CHECK(prototype_tokens(plan) == 0);
  plan.repair.reused_spans[1].of_prototypes = true;
  CHECK(tokens_computed(plan, 2) == Counts{4, 0, 3, 4});
  CHECK(prototype_tokens(plan) == 4);
  plan.repair.reused_spans[1].of_prototypes = false;
  plan.repair.budgets = {3, 4};
  CHECK(tokens_computed(plan, 0) == Counts{4, 4, 4, 4});
  CHECK(pass_of(
            plan, [](std::size_t) { return false; }, 2)
            .new_tokens == 16);
  plan.repair.budgets = {1, 3};
  plan.repair.exact_layers = 0;
  const Pass part = pass_of(
      plan, [](std::size_t i) { return i == 0; }, 2);  // 3 and 3 of the repaired segments' 4 and 4 tokens
  CHECK(part.new_tokens == 4 + 3 + 3);
  CHECK(part.reused_tokens == 4 + 1 + 1);
}

TEST_CASE("plan work: a search adds a row per path at each step but the first, which sees prompt and path") {
  Plan plan = three_segments();
  plan.search = {.segment = 2, .width = 10, .results = 5, .steps = 4};
  const Pass pass = search_pass(plan, tokens_seen(plan));
  CHECK(pass.new_tokens == 3 * 10);
  CHECK(pass.pairs == 30 * 9 + 10 * (1 + 2 + 3));
  CHECK(pass.readouts == 1 + 30);
  const auto computed = [](std::size_t) { return false; };
  CHECK(pass_of(plan, computed).new_tokens == pass_of(three_segments(), computed).new_tokens + 30);
  CHECK(search_steps({.allowed = {{1, 2}, {1, 2, 3, 4, 5}}}) == 5);
  CHECK(search_steps({}) == 3);
  plan.search.of_items = true;  // no token more, but a scan of the item table
  CHECK(search_pass(plan, tokens_seen(plan)).new_tokens == 0);
  CHECK(pass_of(plan, computed).scans == 1);
  const UnitCosts costs = unit_costs({.layers = 1, .hidden = 8, .weight_bytes = 4, .rows_searched = 100});
  CHECK(costs.of({.scans = 2}).operations == 2 * 2 * 800);
  CHECK(costs.of({.scans = 2}).bytes >= 2 * 4 * 800);
  plan.search.of_items = false;
  plan.search.segment = 3;
  CHECK(search_pass(plan, tokens_seen(plan)).new_tokens == 0);
}

TEST_CASE("plan work: a segment sees no segment after it") {
  Plan plan = three_segments();
  plan.segments[1].sees.add({1, 90});
  plan.segments[0].sees.add({7, 8});
  CHECK(tokens_seen(plan) == std::vector<std::uint64_t>{0, 3, 5});
}

}  // namespace
}  // namespace troupe::placement
