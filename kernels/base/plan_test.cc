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
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens = {}; }) ==
        "segments[1].tokens is empty; expected at least one token");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens = {1, 2, 10}; }) ==
        "segments[1].tokens[2] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(fault_after([](Plan& p) { p.segments[0].tokens = {-1, 9}; }) ==
        "segments[0].tokens[0] is -1; expected from 0 to below the vocabulary's 10");
}

TEST_CASE("positions stay inside the model's") {
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 18; }) ==
        "segments[1].start is 18; expected a position from 0 that leaves room for 3 tokens below 20");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 17; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = -1; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = std::numeric_limits<std::int32_t>::max(); }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens = Tokens(21, 0); }) != "");
}

TEST_CASE("a segment sees earlier ones, each once and in order") {
  CHECK(fault_after([](Plan& p) { p.segments[1].sees = {1}; }) ==
        "segments[1].sees[0] is 1; expected an earlier segment than 1");
  CHECK(fault_after([](Plan& p) {
          p.segments[2].sees = {0, 0};
        }) == "segments[2].sees[1] is 0; expected more than 0 before it");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {1, 0}; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {4000000000u}; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees.add({2, 4000000000u}); }) ==
        "segments[2].sees[2] is 2; expected an earlier segment than 2");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees.add({3, 2}); }) != "");
}

TEST_CASE("a block stands where its keys are seen, inside the model's positions") {
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = 15; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = -2; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = 16; }) ==
        "segments[1].shift is 16; expected one that moves its 3 tokens from 2 to positions from 0 to below 20");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = -3; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = std::numeric_limits<std::int32_t>::max(); }) != "");
}

TEST_CASE("tokens stand in for those of one earlier segment, which their own segment does not see") {
  const auto replacing = [](std::uint32_t segment, std::uint32_t offset, std::size_t tokens = 1) {
    return [=](Plan& p) {
      p.segments.push_back({SegmentKind::item, Tokens(tokens, 5), 3, {0}, 0, {segment, offset}, {}});
    };
  };
  CHECK(fault_after(replacing(1, 0)) == "");
  CHECK(fault_after(replacing(1, 2)) == "");
  CHECK(fault_after(replacing(1, 0, 3)) == "");
  CHECK(fault_after(replacing(3, 0)) == "segments[3].replaces is 3; expected an earlier segment than 3");
  CHECK(fault_after(replacing(1, 2, 2)) ==
        "segments[3].replaces.offset is 2; expected one that leaves room for 2 of 3 tokens");
  CHECK(fault_after(replacing(0, 0)) == "segments[3].replaces is 0; expected a segment that it does not see");
  CHECK(fault_after([&](Plan& p) {
          replacing(1, 0, 2)(p);
          replacing(1, 1)(p);
        }) == "segments[4].replaces.offset is 1; expected tokens that segments[3] does not replace, too");
  CHECK(fault_after([&](Plan& p) {
          replacing(1, 0, 2)(p);
          replacing(3, 0)(p);
        }) == "segments[4].replaces is 3; expected a segment that replaces none itself");
}

TEST_CASE("each token has as many features as the model's family takes") {
  Plan plan = sound();
  PlanLimits limits = kLimits;
  limits.features = 2;
  CHECK(find_fault(plan, limits) == "segments[0].features has 0 numbers; expected 2 for each token");
  for (Segment& segment : plan.segments) segment.features.resize(2 * segment.tokens.size());
  CHECK(find_fault(plan, limits) == "");
  CHECK(find_fault(plan, kLimits) == "segments[0].features has 4 numbers; expected 0 for each token");
}

TEST_CASE("a readout is of a token that is there, and of rows that are there") {
  CHECK(fault_after([](Plan& p) { p.readouts[0].segment = 3; }) ==
        "readouts[0].segment is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[1].offset = 3; }) ==
        "readouts[1].offset is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[0].rows[1] = 10; }) ==
        "readouts[0].rows[1] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(fault_after([](Plan& p) { p.readouts[0].what = Readout::What::head; }) ==
        "readouts[0].head is 0; expected below the model's 0 heads");
}

}  // namespace
}  // namespace troupe::kernels
