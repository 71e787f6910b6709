#include "sim/world/toy_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/base/random.h"
#include "sim/testing/evaluate.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

constexpr std::uint32_t page_tokens = 4;

Segment segment(Tokens tokens, std::int32_t start, VisibleSegments sees) {
  return {SegmentKind::user, std::move(tokens), start, std::move(sees)};
}

Plan item_prefix_plan() {
  return {{segment({1, 2, 3, 4, 5}, 0, {}), segment({6, 7}, 5, {0}), segment({8, 9, 10}, 5, {0}),
           segment({11, 12}, 8, {0, 1, 2}), segment({13}, 10, {0, 1, 2, 3})},
          {{4, 0, {100, 200, 300}}}};
}

std::vector<double> scores(const Plan& plan, std::string_view model = "m1") {
  return evaluate(model, plan).at(0).scores;
}

// Computes like a device: each segment in `cached` is seen only through its pages.
std::vector<double> scores_with_cache(const Plan& plan, const std::vector<bool>& cached) {
  std::vector<SegmentValue> values, seen;
  for (std::size_t i = 0; i < plan.segments.size(); ++i) {
    const Segment& one = plan.segments[i];
    gather_seen(plan, i, values, seen);
    SegmentValue value = segment_value(model_key("m1"), one.tokens, one.start, seen);
    std::vector<PageFingerprint> pages;
    for (std::uint32_t p = 0; p < pages_for(one.tokens.size(), page_tokens); ++p)
      pages.push_back(fingerprint(value, p, one.tokens.size(), page_tokens));
    values.push_back(cached[i] ? seen_through(pages, one.tokens.size(), page_tokens) : value);
  }
  const Readout& readout = plan.readouts[0];
  return logits(values[readout.segment], readout.offset, readout.rows).scores;
}

Plan random_plan(RandomStream& random) {
  Plan plan;
  const std::size_t segments = 2 + random.below(8);
  for (std::size_t i = 0; i < segments; ++i) {
    std::vector<Token> tokens(1 + random.below(20));
    for (Token& token : tokens) token = static_cast<Token>(random.below(1'000));
    std::vector<std::uint32_t> sees;
    for (std::uint32_t s = 0; s < i; ++s)
      if (random.below(3) > 0) sees.push_back(s);
    plan.segments.push_back(
        segment(std::move(tokens), static_cast<std::int32_t>(random.below(50)), VisibleSegments(sees)));
  }
  plan.readouts = {{static_cast<std::uint32_t>(segments - 1), 0, {1, 2, 3}}};
  return plan;
}

}  // namespace

TEST_CASE("toy model: every token, start, seen segment, row, offset and the model change the logits") {
  const Plan plan = item_prefix_plan();
  const std::vector<double> truth = scores(plan);
  CHECK(scores(plan) == truth);
  CHECK(scores(plan, "m2") != truth);
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    for (std::size_t t = 0; t < plan.segments[s].tokens.size(); ++t) {
      Plan other = plan;
      std::vector<Token> tokens = plan.segments[s].tokens.copy();
      ++tokens[t];
      other.segments[s].tokens = std::move(tokens);
      CHECK(scores(other) != truth);
    }
    Plan moved = plan;
    ++moved.segments[s].start;
    CHECK(scores(moved) != truth);
    for (const std::uint32_t gone : plan.segments[s].sees) {
      Plan blind = plan;
      blind.segments[s].sees = {};
      for (const std::uint32_t seen : plan.segments[s].sees)
        if (seen != gone) blind.segments[s].sees.add(seen);
      CHECK(scores(blind) != truth);
    }
  }
  Plan swapped = plan;
  swapped.segments[0].tokens = {1, 3, 2, 4, 5};
  CHECK(scores(swapped) != truth);
  Plan elsewhere = plan;
  elsewhere.readouts[0] = {3, 1, {100, 200, 300}};
  const std::vector<double> last_token = scores(elsewhere);
  elsewhere.readouts[0].offset = 0;
  CHECK(scores(elsewhere) != last_token);
  CHECK(truth[0] != truth[1]);
}

TEST_CASE("toy model: the position of a seen block and the replacements of its tokens change the logits") {
  Plan plan = item_prefix_plan();
  plan.segments.insert(plan.segments.begin() + 3, segment({40}, 6, {0}));
  plan.segments[3].replaces = {2, 1};
  plan.segments[4].sees = {0, 1, 2, 3};
  plan.segments[5].sees = {0, 1, 2, 3, 4};
  plan.readouts[0].segment = 5;
  CHECK(validate_plan(plan) == "");
  const std::vector<double> truth = scores(plan);
  Plan shifted = plan, none = plan, other = plan, unseen = plan;
  shifted.segments[1].shift = 3;
  none.segments[3].replaces = {};
  other.segments[3].replaces.offset = 0;
  for (const Plan& changed : {shifted, none, other}) CHECK(scores(changed) != truth);
  unseen.segments[3].replaces = none.segments[3].replaces;
  for (Plan* one : {&plan, &unseen}) {  // no segment sees the replaced one
    one->segments[4].sees = {0, 1, 3};
    one->segments[5].sees = {0, 1, 3, 4};
  }
  CHECK(scores(plan) == scores(unseen));
  plan.segments[3].replaces.offset = 3;
  CHECK(validate_plan(plan) ==
        "segment 3 replaces tokens from 3 of segment 2; expected tokens of an earlier segment that it does "
        "not see");
}

TEST_CASE("toy model: seen segments are a set, independent of order and repetition, as in a block's name") {
  const std::vector<Token> tokens{1, 2, 3};
  const SegmentValue a{{1, 2}}, b{{3, 4}};
  std::vector<SegmentValue> ab{a, b}, baab{b, a, a, b}, only_a{a}, none;
  const SegmentValue value = segment_value(1, tokens, 0, ab);
  CHECK(segment_value(1, tokens, 0, baab) == value);
  CHECK(segment_value(1, tokens, 0, only_a) != value);
  CHECK(segment_value(1, tokens, 0, none) != value);
}

TEST_CASE("toy model: intact pages give the value back, any other pages another value") {
  const SegmentValue value{{11, 22}}, other{{11, 23}};
  const std::size_t tokens = 10;
  std::vector<PageFingerprint> pages;
  for (std::uint32_t p = 0; p < 3; ++p) pages.push_back(fingerprint(value, p, tokens, page_tokens));
  CHECK(seen_through(pages, tokens, page_tokens) == value);
  for (std::uint32_t p = 0; p < 3; ++p) {
    auto torn = pages;
    torn[p] = fingerprint(other, p, tokens, page_tokens);
    CHECK(seen_through(torn, tokens, page_tokens) != value);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      auto flipped = pages;
      flipped[p].of_layer[layer] ^= 1;
      CHECK(seen_through(flipped, tokens, page_tokens) != value);
    }
  }
  auto swapped = pages;
  std::swap(swapped[0], swapped[1]);
  CHECK(seen_through(swapped, tokens, page_tokens) != value);
  CHECK(seen_through(pages, tokens + 1, page_tokens) != value);
}

TEST_CASE("toy model: cached and computed runs of random plans agree") {
  const std::uint64_t seed = 4711;
  INFO("seed ", seed);
  RandomStream random(seed, 0);
  for (int round = 0; round < 200; ++round) {
    const Plan plan = random_plan(random);
    std::vector<bool> cached;
    for (std::size_t i = 0; i < plan.segments.size(); ++i) cached.push_back(random.below(2) == 0);
    CHECK(scores_with_cache(plan, cached) == scores(plan));
  }
}

TEST_CASE("toy model: logits lie in (-8, 8)") {
  std::vector<Token> rows(10'000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Token>(i);
  const ScoreRow row = logits({{5, 6}}, 0, rows);
  const auto [low, high] = std::minmax_element(row.scores.begin(), row.scores.end());
  CHECK(*low > -8);
  CHECK(*low < -7.9);
  CHECK(*high < 8);
  CHECK(*high > 7.9);
}

TEST_CASE("toy model: find_plan_fault names what is wrong in an invalid plan") {
  Plan plan = item_prefix_plan();
  CHECK(validate_plan(plan) == "");
  plan.segments[3].sees = {0, 2, 1};
  CHECK(validate_plan(plan) == "segment 3 sees segments 1 to before 2; expected earlier segments, ascending");
  plan.segments[3].sees = {3};
  CHECK(validate_plan(plan) == "segment 3 sees segments 3 to before 4; expected earlier segments, ascending");
  plan = item_prefix_plan();
  plan.segments[1].tokens = {};
  CHECK(validate_plan(plan) == "segment 1 is empty");
  plan = item_prefix_plan();
  plan.readouts[0].offset = 1;
  CHECK(validate_plan(plan) == "a readout is outside its plan: segment 4, offset 1");
}
