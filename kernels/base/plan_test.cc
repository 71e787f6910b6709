#include "kernels/base/plan.h"

#include <doctest/doctest.h>

#include <limits>

namespace troupe::kernels {
namespace {

constexpr PlanLimits kLimits{10, 20};

Plan sound() {
  Plan plan;
  plan.segments = {{SegmentKind::system, {0, 9}, 0, {}},
                   {SegmentKind::item, {1, 2, 3}, 2, {0}},
                   {SegmentKind::user, {4}, 19, {0, 1}}};
  plan.readouts = {{2, 0, {9, 0}}, {1, 2, {}}};
  return plan;
}

template <class Change>
std::string fault_after(Change change) {
  Plan plan = sound();
  change(plan);
  return find_fault(plan, kLimits);
}

TEST_CASE("a sound plan has no fault, up to the last token, position and row") {
  CHECK(find_fault(sound(), kLimits) == "");
  CHECK(token_count(sound()) == 6);
  CHECK(token_count({}) == 0);
}

TEST_CASE("faults of segments are named with their place") {
  CHECK(fault_after([](Plan& p) { p.segments.clear(); }) ==
        "segments is empty; expected at least one segment");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens.clear(); }) ==
        "segments[1].tokens is empty; expected at least one token");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens[2] = 10; }) ==
        "segments[1].tokens[2] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(fault_after([](Plan& p) { p.segments[0].tokens[0] = -1; }) ==
        "segments[0].tokens[0] is -1; expected from 0 to below the vocabulary's 10");
}

TEST_CASE("positions stay inside the model's") {
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 18; }) ==
        "segments[1].start is 18; expected a position from 0 that leaves room for 3 tokens below 20");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 17; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = -1; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = std::numeric_limits<std::int32_t>::max(); }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens.assign(21, 0); }) != "");
}

TEST_CASE("a segment sees earlier ones, each once and in order") {
  CHECK(fault_after([](Plan& p) { p.segments[1].sees = {1}; }) ==
        "segments[1].sees[0] is 1; expected an earlier segment than 1");
  CHECK(fault_after([](Plan& p) {
          p.segments[2].sees = {0, 0};
        }) == "segments[2].sees[1] is 0; expected more than 0 before it");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {1, 0}; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {4000000000u}; }) != "");
}

TEST_CASE("a readout is of a token that is there, and of rows that are there") {
  CHECK(fault_after([](Plan& p) { p.readouts[0].segment = 3; }) ==
        "readouts[0].segment is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[1].offset = 3; }) ==
        "readouts[1].offset is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[0].rows[1] = 10; }) ==
        "readouts[0].rows[1] is 10; expected from 0 to below the vocabulary's 10");
}

}  // namespace
}  // namespace troupe::kernels
