// Tests of approximate plans that lack the block of an item: whether it is computed in its place.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/testing/router_core_test.h"

namespace troupe::router {
namespace router_in_place_test {

RouterConfig config_of(ItemBlockKind precomputed) {
  RouterConfig config = small_config();
  config.form.arrangements = {Arrangement::causal};
  config.form.interchangeable = {};
  config.limits.approximate = 0.9;
  config.costs = {.token_operations = 1};
  config.precompute.blocks = precomputed;
  return config;
}

Features found() {
  const Profile user{7, std::vector<Token>(6, 30), {2, 2, 2}};
  Item b = test_item("b", 3);
  std::ranges::fill(b.tokens, 11);
  return features_of(std::make_shared<const Profile>(user), {test_item("a"), b}, "catalog 1");
}

// Brings a request up to its plan. The index knows a node that has the block of a, and none that has b's.
void plan(RouterBench& bench, const std::string& policy) {
  bench.probe.start();
  bench.rank(0, 1, policy);
  bench.find(1, found());
  BlocksFound answer{.id = bench.asked.id};
  for (const BlockQuery& block : bench.asked.blocks) {
    const bool is_a = block.kind == SegmentKind::item && block.tokens == 4;
    answer.counts.push_back(is_a);
    answer.uses.push_back(0);
    if (is_a) answer.holders.push_back(1);
  }
  bench.probe.receive(2, meta, answer);
}

std::vector<std::string> owners(const Execute& execute) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < execute.blocks.size(); ++i)
    if (execute.blocks[i].name && execute.plan.segments[i].kind == SegmentKind::item)
      all.push_back(execute.blocks[i].owner);
  return all;
}

RankReply reply_of(RouterBench& bench) {
  bench.probe.receive(3, worker,
                      bench.answer({1, 2}, std::vector<std::uint8_t>(bench.plan().plan.segments.size())));
  REQUIRE(bench.replies() == 1);
  return bench.probe.sent<RankReply>()[0];
}

TEST_CASE("router: a missing item that precomputing makes is computed in its place, and no block is kept") {
  for (const char* policy : {"blocks+50", "all_blocks+50"}) {
    CAPTURE(policy);
    RouterBench bench(config_of(ItemBlockKind::movable));
    plan(bench, policy);
    const Execute sent = bench.plan();
    CHECK(owners(sent) == std::vector<std::string>{"a"});
    const std::vector<kernels::Repair::ReusedSpan>& spans = sent.plan.repair.reused_spans;
    CHECK(std::ranges::count_if(spans, [&](const auto& span) {
            return sent.plan.segments[span.segment].kind == SegmentKind::item;
          }) == 1);
    // The item sees everything before it that is no block, and begins behind the other item.
    const auto& segments = sent.plan.segments;
    const auto own = std::ranges::find(segments, Tokens{11, 11, 11}, &Segment::tokens);
    REQUIRE(own != segments.end());
    CHECK(own->kind == SegmentKind::item);
    CHECK(own->start == 2 + 7 + 4);
    CHECK(std::ranges::count(segments, Tokens{11, 11, 11}, &Segment::tokens) == 1);
    CHECK(own->sees.contains(spans.back().segment));
    CHECK_FALSE(own->sees.contains(spans.back().block));
    // The user's blocks are kept as ever.
    CHECK(std::ranges::any_of(sent.blocks, [](const SegmentBlock& block) {
      return block.name && block.owner != "a" && !block.owner.empty();
    }));
    const RankReply reply = reply_of(bench);
    CHECK(reply.in_place == std::vector<std::string>{"b"});
    CHECK(bench.probe.counted(Metric::blocks_computed_item) >= 2);
    CHECK(reply.tokens_total == 2 + 7 + 4 + 3 + 2);
  }
}

TEST_CASE("router: a missing item whose block nobody else makes is computed alone, and its block is kept") {
  for (const ItemBlockKind other : {ItemBlockKind::none, ItemBlockKind::prefix}) {
    RouterBench bench(config_of(other));
    plan(bench, "blocks+50");
    CHECK(owners(bench.plan()) == std::vector<std::string>{"a", "b"});
    CHECK(reply_of(bench).in_place.empty());
  }
}

TEST_CASE("router: without the index's answer every block is asked for") {
  RouterBench bench(config_of(ItemBlockKind::movable));
  bench.probe.start();
  bench.rank(0, 1, "blocks+50");
  bench.find(1, found());
  bench.run_until(101);
  CHECK(owners(bench.plan()) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("router: a plan without one of its blocks is the plain prompt") {
  RouterBench bench(config_of(ItemBlockKind::movable));
  bench.probe.start();
  bench.rank(0, 1, "blocks+50");
  bench.find(1, found());
  bench.index(2, IndexAnswer{{}, {0, 0}, {}});
  const Execute sent = bench.plan();
  CHECK(owners(sent).empty());
  CHECK(sent.plan.repair == kernels::Repair{});
  const RankReply reply = reply_of(bench);
  CHECK(reply.approximate == 0);
  CHECK(reply.in_place == std::vector<std::string>{"a", "b"});
  RouterBench plain(config_of(ItemBlockKind::movable));
  plain.rank(0, 1, "causal");
  plain.find(1, found());
  plain.index(2, IndexAnswer{{}, {}, {}});
  CHECK(plain.plan().plan == sent.plan);
}

TEST_CASE("planner: the predicted work counts an item in its place once, without a repair") {
  const auto predicted = [](const std::string& policy, ItemBlockKind precomputed) {
    RouterConfig config = config_of(precomputed);
    config.costs.layers = 8;
    config.pace = {.us_per_operation = 10};
    config.budget = {10'000};
    RouterBench bench(config);
    plan(bench, policy);
    return reply_of(bench).timings.predicted;
  };
  using enum ItemBlockKind;
  CHECK(predicted("blocks+50", movable) < predicted("blocks+50", none));
  CHECK(predicted("blocks+50", movable) < predicted("causal", none));
  CHECK(predicted("planner+50", movable) <= predicted("blocks+50", movable));
}

// Two events of a user, an item a of 12 tokens, and an item b of 3.
constexpr std::uint32_t a_tokens = 12, b_tokens = 3;
Features found_of(std::uint32_t event_tokens) {
  Profile user{7, std::vector<Token>(2 * event_tokens, 30), {event_tokens, event_tokens}};
  std::fill_n(user.tokens.begin(), event_tokens, 32);
  Item b = test_item("b", b_tokens);
  std::ranges::fill(b.tokens, 11);
  return features_of(std::make_shared<const Profile>(user), {test_item("a", a_tokens), b}, "catalog 1");
}

// Brings a request of the planner up to its plan. Node 9 holds the block of a, and no node that of b;
// `holder`: the node that holds a block of the user, 0 = none.
void plan_all(RouterBench& bench, const Features& found,
              const std::function<NodeId(const BlockQuery&)>& holder) {
  bench.probe.start();
  bench.rank(0, 1, "planner");
  bench.find(1, found);
  BlocksFound answer{.id = bench.asked.id};
  for (const BlockQuery& block : bench.asked.blocks) {
    const bool is_item = block.kind == SegmentKind::item;
    const NodeId node = !is_item ? holder(block) : block.tokens == a_tokens ? 9 : 0;
    answer.counts.push_back(node != 0);
    answer.uses.push_back(0);
    if (node != 0) answer.holders.push_back(node);
  }
  bench.probe.receive(2, meta, answer);
}

// Returns "kind tokens @ node" for each block that is looked up; the node is where the plan says it is.
std::vector<std::string> places(const Execute& execute) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < execute.blocks.size(); ++i) {
    const SegmentBlock& block = execute.blocks[i];
    const Segment& segment = execute.plan.segments[i];
    if (is_asked_for(block))
      all.push_back((segment.kind == SegmentKind::item ? "item " : "user ") +
                    std::to_string(segment.tokens.size()) + " @ " + std::to_string(block.at));
  }
  return all;
}

// Several plans are weighed: causal asks for the user's block; blocks for a, b and the user's block;
// all_blocks for two events, a and b; prototypes for a and b.
TEST_CASE("planner: with an item in its place, each block of the chosen plan has its own holder") {
  RouterConfig config = config_of(ItemBlockKind::movable);
  config.costs.layers = 32;
  RouterBench bench(config);
  constexpr std::uint32_t event = 4, history = 2 * event + 1;  // behind the form's token
  plan_all(bench, found_of(event), [](const BlockQuery& block) { return block.tokens == history ? 8 : 0; });
  CHECK(bench.asked.blocks.size() == 1 + 3 + 4);
  const Execute sent = bench.plan();
  CHECK(places(sent) == std::vector<std::string>{"item 12 @ 9", "user 9 @ 8"});
  CHECK(sent.plan.repair.reused_spans.size() == 1);
  const RankReply reply = reply_of(bench);
  CHECK(reply.plan == "blocks");
  CHECK(reply.in_place == std::vector<std::string>{"b"});
}

TEST_CASE("planner: a later plan with an item in its place also finds its holders") {
  RouterConfig config = config_of(ItemBlockKind::movable);
  config.costs.layers = 32;
  RouterBench bench(config);
  constexpr std::uint32_t event = 9;
  // The events are held, and the whole history is not.
  NodeId next = 6;
  plan_all(bench, found_of(event),
           [&](const BlockQuery& block) { return block.tokens == event ? next++ : 0; });
  CHECK(places(bench.plan()) == std::vector<std::string>{"user 9 @ 6", "user 9 @ 7", "item 12 @ 9"});
  const RankReply reply = reply_of(bench);
  CHECK(reply.plan == "all_blocks");
  CHECK(reply.in_place == std::vector<std::string>{"b"});
}

TEST_CASE("planner: prototypes for the history beside a block of one item, and the other in its place") {
  RouterConfig config = config_of(ItemBlockKind::movable);
  config.costs.layers = 32;
  config.form.prototype_set = std::make_shared<EvenTokens>();
  RouterBench bench(config);
  constexpr std::uint32_t event = 9;
  // One node holds the first event, which only all_blocks looks up.
  NodeId first = 7;
  plan_all(bench, found_of(event),
           [&](const BlockQuery& block) { return block.tokens == event ? std::exchange(first, 0) : 0; });
  CHECK(bench.asked.blocks.size() == 1 + 3 + 4 + 2);
  const Execute sent = bench.plan();
  CHECK(sent.plan.repair.prototypes == "even");
  CHECK(places(sent) == std::vector<std::string>{"item 12 @ 9"});
  const auto& spans = sent.plan.repair.reused_spans;
  REQUIRE(spans.size() == 3);
  for (const kernels::Repair::ReusedSpan& span : spans) {
    const Segment &own = sent.plan.segments[span.segment], &block = sent.plan.segments[span.block];
    CHECK(span.of_prototypes == (own.kind == SegmentKind::user));
    CHECK(own.tokens == block.tokens);
    CHECK_FALSE(own.sees.contains(span.block));
  }
  // b is computed behind the other item, in place of a block of its own.
  const auto own = std::ranges::find(sent.plan.segments, Tokens{11, 11, 11}, &Segment::tokens);
  REQUIRE(own != sent.plan.segments.end());
  CHECK(own->start == 2 + 1 + 2 * event + a_tokens);
  CHECK(own->sees.contains(spans.back().segment));
  CHECK(std::ranges::count(sent.plan.segments, Tokens{11, 11, 11}, &Segment::tokens) == 1);
  const RankReply reply = reply_of(bench);
  CHECK(reply.plan == "prototypes");
  CHECK(reply.in_place == std::vector<std::string>{"b"});
  CHECK(reply.approximate > 0);
}

}  // namespace router_in_place_test
}  // namespace troupe::router
