#include "kernels/base/repair.h"

#include <doctest/doctest.h>

#include <cmath>

#include "kernels/base/plan.h"

namespace troupe::kernels {
namespace {
namespace repair_test {

PlanLimits limits(bool repairs = true) {
  PlanLimits limits{10, 100};
  limits.width_max = 8;
  limits.repairs = repairs;
  return limits;
}

// Two blocks, a user, their reused spans with a delimiter between them, and a discriminant that is
// read.
Plan sound() {
  Plan plan;
  plan.segments = {{SegmentKind::item, {1, 2, 3}, 0, {}},
                   {SegmentKind::item, {4, 5}, 0, {}},
                   {SegmentKind::user, {6, 7}, 0, {}},
                   {SegmentKind::item, {1, 2, 3}, 2, {2}},
                   {SegmentKind::item, {8}, 5, {2, 3}},
                   {SegmentKind::item, {4, 5}, 6, {2, 3, 4}},
                   {SegmentKind::discriminant, {9}, 8, {2, 3, 4, 5}}};
  plan.readouts = {{6, 0, {0, 1}}};
  plan.repair.reused_spans = {{3, 0, 0}, {5, 1, 1}};
  plan.repair.budgets = {2, 1};
  plan.repair.always = {0, 4};
  plan.repair.attention = 1;
  return plan;
}

template <class Change>
std::string fault_after(Change change) {
  Plan plan = sound();
  change(plan);
  return validate(plan, limits());
}

TEST_CASE("repair: a sound repair has no fault, up to the last token, segment and budget") {
  CHECK(validate(sound(), limits()) == "");
  CHECK(repaired_tokens(sound()) == 5);
  CHECK(fault_after([](Plan& p) { p.repair.budgets = {3, 2}; }) == "");
  CHECK(fault_after([](Plan& p) { p.repair.attending = 7; }) == "");
  CHECK(fault_after([](Plan& p) { p.repair.exact_layers = 1000; }) == "");
  CHECK(fault_after([](Plan& p) { p.repair = {}; }) == "");
}

TEST_CASE("repair: a model that does not repair refuses a repair") {
  CHECK(validate(sound(), limits(false)) ==
        "repair.places has 2; expected none, as this model's executor does not repair");
  Plan plan = sound();
  plan.repair = {};
  CHECK(validate(plan, limits(false)) == "");
}

TEST_CASE("repair: spans must be ascending segments of the prompt with an earlier block of the same tokens") {
  const auto reused = [](std::size_t which, Repair::ReusedSpan to) {
    return [=](Plan& p) { p.repair.reused_spans[which] = to; };
  };
  CHECK(fault_after(reused(1, {7, 1, 1})) == "repair.places[1].segment is 7; expected below 7");
  CHECK(fault_after(reused(1, {3, 0, 1})) == "repair.places[1].segment is 3; expected more than 3 before it");
  CHECK(fault_after(reused(1, {5, 5, 1})) ==
        "repair.places[1].block is 5; expected an earlier segment than 5");
  CHECK(fault_after(reused(1, {5, 0, 1})) ==
        "repair.places[1].block is 0; expected a segment with the tokens of 5");
  CHECK(fault_after(reused(1, {5, 3, 1})) ==
        "repair.places[1].block is 3; expected a segment that is not a reused span");
  CHECK(fault_after(reused(1, {5, 1, 2})) == "repair.places[1].budget is 2; expected below 2");
  CHECK(fault_after([](Plan& p) { p.segments[3].shift = 1; }) ==
        "repair.places[0].segment is 3; expected a segment without a shift that replaces nothing");
  CHECK(fault_after([](Plan& p) { p.repair.reused_spans.clear(); }) ==
        "repair.places is empty; expected at least one, or nothing else of a repair");
  CHECK(fault_after([](Plan& p) {
          p.segments[4].tokens = {4, 5};
          p.segments[4].sees = {3};
          p.repair.reused_spans[1].block = 4;
        }) == "repair.places[1].block is 4; expected a segment that sees no reused span");
}

TEST_CASE("repair: budgets and tokens chosen always must be of the spans, and scores need weights") {
  CHECK(fault_after([](Plan& p) {
          p.repair.budgets = {4, 1};
        }) == "repair.budgets[0] is 4; expected at most the 3 tokens of its spans");
  CHECK(fault_after([](Plan& p) { p.repair.budgets.resize(5); }) ==
        "repair.budgets has 5; expected at most 4");
  CHECK(fault_after([](Plan& p) { p.repair.budgets.resize(4); }) == "");
  CHECK(fault_after([](Plan& p) { p.repair.attention = 0; }) ==
        "repair.budgets[0] is 2; expected 0, as scores have no weight");
  CHECK(fault_after([](Plan& p) { p.repair.attention = -1; }) != "");
  CHECK(fault_after([](Plan& p) { p.repair.divergence = NAN; }) != "");
  CHECK(fault_after([](Plan& p) { p.repair.factors = {{1, 0.5}, {2, 0}}; }) == "");
  CHECK(fault_after([](Plan& p) {
          p.repair.factors = {{1, 1}};
        }) == "repair.factors has 1; expected none, or one for each of the 2 budgets");
  CHECK(fault_after([](Plan& p) {
          p.repair.factors = {{1, 1}, {0, 1}};
        }) == "repair.budgets[1] is 1; expected 0, as scores have no weight");
  CHECK(fault_after([](Plan& p) {
          p.repair.factors = {{1, 1}, {-1, 1}};
        }).starts_with("repair.factors[1] has -1"));
  CHECK(fault_after([](Plan& p) {
          p.repair.factors = {{1, NAN}, {1, 1}};
        }).starts_with("repair.factors[0] has "));
  CHECK(fault_after([](Plan& p) { p.repair.always = {5}; }) == "repair.always[0] is 5; expected below 5");
  CHECK(fault_after([](Plan& p) {
          p.repair.always = {1, 1};
        }) == "repair.always[1] is 1; expected more than 1 before it");
  CHECK(fault_after([](Plan& p) { p.repair.exact_layers = 0; }) ==
        "repair.exact_layers is 0; expected at least 1");
  CHECK(fault_after([](Plan& p) { p.repair.attending = 8; }) == "repair.attending is 8; expected at most 7");
}

TEST_CASE("repair: a span must not be read, searched behind or replaced") {
  CHECK(fault_after([](Plan& p) { p.readouts[0].segment = 5; }) ==
        "readouts[0].segment is 5; expected one that is not repaired");
  CHECK(fault_after([](Plan& p) {
          p.search = {6, 1, 1, 1};
        }) == "search.width is 1; expected 0 where a plan has a repair");
  CHECK(fault_after([](Plan& p) {
          p.segments[6].replaces = {3, 0};
          p.segments[6].sees = {2, 4, 5};
        }) == "segments[6].replaces is 3; expected a segment that is not repaired");
}

}  // namespace repair_test
}  // namespace
}  // namespace troupe::kernels
