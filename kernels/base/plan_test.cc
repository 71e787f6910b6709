#include "kernels/base/plan.h"

#include <doctest/doctest.h>

#include <limits>

#include "kernels/base/path_index.h"

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
  return validate(plan, kLimits);
}

TEST_CASE("plan: a sound plan has no fault, up to the last token, position and row") {
  CHECK(validate(sound(), kLimits) == "");
  CHECK(token_count(sound()) == 6);
  CHECK(token_count({}) == 0);
}

TEST_CASE("plan: a fault of a segment names the segment and its member") {
  CHECK(fault_after([](Plan& p) { p.segments.clear(); }) ==
        "segments is empty; expected at least one segment");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens = {}; }) ==
        "segments[1].tokens is empty; expected at least one token");
  CHECK(fault_after([](Plan& p) {
          p.segments[1].tokens = {1, 2, 10};
        }) == "segments[1].tokens[2] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(fault_after([](Plan& p) {
          p.segments[0].tokens = {-1, 9};
        }) == "segments[0].tokens[0] is -1; expected from 0 to below the vocabulary's 10");
}

TEST_CASE("plan: positions must stay inside the model's") {
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 18; }) ==
        "segments[1].start is 18; expected a position from 0 that leaves space for 3 tokens below 20");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = 17; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = -1; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].start = std::numeric_limits<std::int32_t>::max(); }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].tokens = Tokens(21, 0); }) != "");
}

TEST_CASE("plan: a segment must see earlier segments, each once and in order") {
  CHECK(fault_after([](Plan& p) { p.segments[1].sees = {1}; }) ==
        "segments[1].sees[0] is 1; expected an earlier segment than 1");
  CHECK(fault_after([](Plan& p) {
          p.segments[2].sees = {0, 0};
        }) == "segments[2].sees[1] is 0; expected more than 0 before it");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {1, 0}; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees = {4000000000u}; }) != "");
  CHECK(fault_after([](Plan& p) {
          p.segments[2].sees.add({2, 4000000000u});
        }) == "segments[2].sees[2] is 2; expected an earlier segment than 2");
  CHECK(fault_after([](Plan& p) { p.segments[2].sees.add({3, 2}); }) != "");
}

TEST_CASE("plan: a shifted segment must stay inside the model's positions") {
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = 15; }) == "");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = -2; }) == "");
  CHECK(
      fault_after([](Plan& p) { p.segments[1].shift = 16; }) ==
      "segments[1].shift is 16; expected one that moves its 3 tokens from 2 to positions from 0 to below 20");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = -3; }) != "");
  CHECK(fault_after([](Plan& p) { p.segments[1].shift = std::numeric_limits<std::int32_t>::max(); }) != "");
}

TEST_CASE(
    "plan: replaced tokens must belong to one earlier segment that the replacing segment does not see") {
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
        "segments[3].replaces.offset is 2; expected one that leaves space for 2 of 3 tokens");
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

TEST_CASE("plan: each token must have the model's number of features") {
  Plan plan = sound();
  PlanLimits limits = kLimits;
  limits.features = 2;
  CHECK(validate(plan, limits) == "segments[0].features has 0 numbers; expected 2 for each token");
  for (Segment& segment : plan.segments) segment.features.resize(2 * segment.tokens.size());
  CHECK(validate(plan, limits) == "");
  CHECK(validate(plan, kLimits) == "segments[0].features has 4 numbers; expected 0 for each token");
}

TEST_CASE("plan: a readout must name an existing token and existing rows") {
  CHECK(fault_after([](Plan& p) { p.readouts[0].segment = 3; }) ==
        "readouts[0].segment is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[1].offset = 3; }) ==
        "readouts[1].offset is 3; expected below 3");
  CHECK(fault_after([](Plan& p) { p.readouts[0].rows[1] = 10; }) ==
        "readouts[0].rows[1] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(fault_after([](Plan& p) { p.readouts[0].what = Readout::What::head; }) ==
        "readouts[0].head is 0; expected below the model's 0 heads");
}

constexpr PlanLimits kSearchLimits{10, 20, 0, 0, 8};

// A search behind segment 1, which ends at position 5: paths of up to 16 tokens fit.
template <class Change>
std::string search_fault_after(Change change, const PlanLimits& limits = kSearchLimits) {
  Plan plan = sound();
  plan.search = {1, 4, 2, 3, Search::Normalisation::vocabulary, {}, {}};
  change(plan);
  return validate(plan, limits);
}

TEST_CASE("plan: a search must follow an existing segment and be no wider than the model allows") {
  CHECK(search_fault_after([](Plan&) {}) == "");
  CHECK(search_fault_after([](Plan& p) { p.search.width = 8; }) == "");
  CHECK(search_fault_after([](Plan& p) { p.search.width = 9; }) == "search.width is 9; expected 1 to 8");
  CHECK(search_fault_after([](Plan&) {}, kLimits) ==
        "search.width is 4; expected 0, as the model does not generate");
  CHECK(search_fault_after([](Plan& p) { p.search.width = 0; }) ==
        "search.width is 0; expected at least 1, or nothing else of a search");
  CHECK(search_fault_after([](Plan& p) { p.search = {}; }, kLimits) == "");
  CHECK(search_fault_after([](Plan& p) { p.search.segment = 3; }) == "search.segment is 3; expected below 3");
  CHECK(search_fault_after([](Plan& p) { p.search.results = 4; }) == "");
  CHECK(search_fault_after([](Plan& p) { p.search.results = 5; }) ==
        "search.results is 5; expected 1 to the width 4");
  CHECK(search_fault_after([](Plan& p) { p.search.results = 0; }) != "");
}

TEST_CASE("plan: allowed and denied paths must have tokens of the vocabulary, and exclude steps") {
  const auto allow = [](Tokens path) {
    return [=](Plan& p) {
      p.search.steps = 0;
      p.search.allowed = {{9}, path};
    };
  };
  CHECK(search_fault_after(allow({0, 9})) == "");
  CHECK(search_fault_after(allow({})) == "search.allowed[1] is empty; expected at least one token");
  CHECK(search_fault_after(allow({0, 10})) ==
        "search.allowed[1][1] is 10; expected from 0 to below the vocabulary's 10");
  CHECK(search_fault_after([](Plan& p) { p.search.allowed = {{1}}; }) ==
        "search.steps is 3; expected 0, as the allowed paths say how many");
  CHECK(search_fault_after([](Plan& p) { p.search.denied = {{1, 2, 3}, {0}}; }) == "");
  CHECK(search_fault_after([](Plan& p) {
          p.search.denied = {{1, 2, 3}, {}};
        }) == "search.denied[1] is empty; expected at least one token");
  CHECK(search_fault_after([](Plan& p) { p.search.denied = {{-1}}; }) != "");
}

TEST_CASE("plan: every token of a path but the last must have a position behind the prompt") {
  const auto steps = [](std::uint32_t count, std::int32_t shift) {
    return [=](Plan& p) {
      p.search.steps = count;
      p.segments[1].shift = shift;
    };
  };
  CHECK(search_fault_after(steps(16, 0)) == "");
  CHECK(search_fault_after(steps(17, 0)) ==
        "the search's longest path has 17 tokens; expected at most 16 behind segments[1] below position 20");
  CHECK(search_fault_after(steps(14, 2)) == "");
  CHECK(search_fault_after(steps(15, 2)) != "");
  CHECK(search_fault_after(steps(UINT32_MAX, 0)) != "");
  CHECK(search_fault_after([](Plan& p) {
          p.search.steps = 0;
          p.search.allowed = {{1}, Tokens(17, 3), {2}};
        }) != "");
  CHECK(search_fault_after([](Plan& p) {
          p.search = {2, 1, 1, 1};
        }) == "");  // its one path begins at position 20; its only token is not computed
  CHECK(search_fault_after([](Plan& p) { p.search = {2, 1, 1, 2}; }) != "");
}

TEST_CASE("plan: an index determines the path length, and its longest path must fit behind the prompt") {
  const auto fault_with = [](const std::vector<Token>& path, std::uint32_t steps,
                             std::vector<Tokens> allowed = {}) {
    Plan plan = sound();
    plan.search = {1, 4, 2, steps, Search::Normalisation::vocabulary, std::move(allowed), {}};
    const std::span<const Token> paths[] = {path};
    const PathIndex index(paths);
    return validate(plan, path.empty() ? nullptr : &index, kSearchLimits);
  };
  CHECK(fault_with({}, 3) == "");
  CHECK(fault_with({}, 0) == "search.steps is 0; expected at least 1 where no paths say how many");
  CHECK(fault_with(std::vector<Token>(16, 9), 0) == "");
  CHECK(fault_with(std::vector<Token>(17, 9), 0) ==
        "the index's longest path has 17 tokens; expected at most 16 behind segments[1] below position 20");
  CHECK(fault_with({1, 2}, 3) == "search.steps is 3; expected 0, as the index of paths says how many");
  CHECK(fault_with({1, 10}, 0) == "the index of paths has a token outside the vocabulary's 10");
  CHECK(fault_with({1, 10}, 0, {{1}}) == "");  // the index is not used
  CHECK(validate(sound(), nullptr, kLimits) == "");
}

TEST_CASE("plan: a model without moves refuses a shifted and a replacing segment") {
  PlanLimits limits = kLimits;
  limits.moves = false;
  Plan plan = sound();
  CHECK(validate(plan, limits) == "");
  plan.segments[1].shift = 3;
  CHECK(validate(plan, kLimits) == "");
  CHECK(validate(plan, limits) == "segments[1].shift is 3; expected 0, as the model's keys cannot be moved");
  plan = sound();
  plan.segments[2] = {SegmentKind::user, {4}, 3, {0}};
  plan.segments[2].replaces = {1, 1};
  CHECK(validate(plan, kLimits) == "");
  CHECK(validate(plan, limits) ==
        "segments[2].replaces is 1; expected none, as the model's keys cannot be replaced");
}

}  // namespace
}  // namespace troupe::kernels
