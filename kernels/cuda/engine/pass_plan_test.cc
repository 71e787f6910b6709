#include "kernels/cuda/engine/pass_plan.h"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <random>

using namespace troupe::kernels;
using namespace troupe::kernels::cuda;

namespace {

constexpr KvLayout layout{
    .layers = 2, .kv_heads = 1, .head_dim = 32, .page_tokens = 4, .format = KvFormat::bf16};
constexpr std::size_t token_bytes = 64;

DecoderConfig config() {
  DecoderConfig config;
  config.layers = 2, config.kv_heads = 1, config.heads = 2, config.head_dim = 32;
  config.vocabulary = 1000, config.positions_max = 10000;
  return config;
}

struct Page {
  alignas(64) std::byte bytes[1024];
};

// A request over pages whose contents are never read: only their addresses matter.
struct PassCase {
  std::deque<Page> pages;
  std::vector<std::byte*> scratch;
  Plan plan;
  Request request{&plan, {}};
  BatchPlanner batches{config(), layout};
  const DecoderBatch* batch = nullptr;

  std::vector<std::byte*> take(std::size_t tokens) {
    std::vector<std::byte*> taken;
    while (taken.size() < layout.pages_for(tokens)) taken.push_back(pages.emplace_back().bytes);
    return taken;
  }
  void add(std::uint32_t tokens, std::vector<std::uint32_t> sees, Source source = Source::compute,
           bool kept = false) {
    plan.segments.push_back({SegmentKind::item, Tokens(tokens, 7), 0, VisibleSegments(sees)});
    request.kv.push_back(
        {source, kept || source == Source::cached ? take(tokens) : std::vector<std::byte*>()});
  }
  PassPlanner planner(PassBounds bounds) {
    scratch = take(bounds.rows);
    return PassPlanner(layout, {.multiprocessors = 2, .kv_heads = 1, .heads = 2}, bounds, scratch);
  }
  std::string run(PassPlanner& planner) {
    batch = &batches.plan({&request, 1});
    return planner.plan(*batch);
  }
};

constexpr PassBounds wide{.rows = 64, .keys = 1000, .logits = 1000, .plan_bytes = 1 << 20};

}  // namespace

TEST_SUITE("cuda pass plan") {
  TEST_CASE(
      "pass plan: kept rows are in their pages, other rows in scratch, and unfilled tokens are cleared") {
    PassCase given;
    given.add(5, {}, Source::compute, true);
    given.add(6, {0});
    PassPlanner planner = given.planner(wide);
    REQUIRE(given.run(planner) == "");
    const PassPlan& plan = planner.result();
    REQUIRE(plan.slots.size() == 11);
    const std::vector<std::byte*>& kept = given.request.kv[0].pages;
    for (std::size_t t = 0; t < 5; ++t) CHECK(plan.slots[t] == kept[t / 4] + t % 4 * token_bytes);
    for (std::size_t t = 0; t < 6; ++t)
      CHECK(plan.slots[5 + t] == given.scratch[t / 4] + t % 4 * token_bytes);
    CHECK(plan.cleared == std::vector<std::byte*>{kept[1] + 64, kept[1] + 128, kept[1] + 192});
  }

  TEST_CASE("pass plan: a group's keys are its context's tokens, cached or computed, then its own rows") {
    PassCase given;
    given.add(5, {}, Source::cached);
    given.add(2, {});
    given.add(1, {0, 1});
    PassPlanner planner = given.planner(wide);
    REQUIRE(given.run(planner) == "");
    const PassPlan& plan = planner.result();
    const std::vector<std::byte*>& cached = given.request.kv[0].pages;
    const std::vector<const std::byte*> want{plan.slots[0], plan.slots[1],  // the first group
                                             cached[0],     cached[0] + 64, cached[0] + 128, cached[0] + 192,
                                             cached[1],     plan.slots[0],  plan.slots[1],   plan.slots[2]};
    CHECK(plan.keys == want);
  }

  TEST_CASE(
      "pass plan: a beam's keys are the prompt's and its path's, wherever they are, its own token last") {
    PassCase given;
    given.add(5, {}, Source::cached);
    given.plan.search = {.segment = 0, .width = 2, .results = 2, .steps = 4};
    PassPlanner planner = given.planner(wide);
    const std::vector<Token> tokens{1, 2};
    const BeamRows level{&given.request, tokens, 7, 5, 3};
    given.batch = &given.batches.plan_beams({&level, 1});
    std::byte* const kept = given.take(4)[0];
    const std::vector<std::byte*>& prompt = given.request.kv[0].pages;
    const std::byte* const early = given.take(4)[0];
    const GroupTail tail{{kept + 64, nullptr}, {early, early + 128, early + 64, early + 128}};
    REQUIRE(planner.plan(*given.batch, {&tail, 1}) == "");
    const PassPlan& plan = planner.result();
    CHECK(plan.slots == std::vector<std::byte*>{kept + 64, given.scratch[0]});
    const std::vector<const std::byte*> want{prompt[0],  prompt[0] + 64, prompt[0] + 128, prompt[0] + 192,
                                             prompt[1],  early,          early + 128,     kept + 64,
                                             early + 64, early + 128,    plan.slots[1]};
    CHECK(plan.keys == want);
    PassPlanner narrow = given.planner({.rows = 64, .keys = 10, .logits = 10, .plan_bytes = 1 << 20});
    CHECK(narrow.plan(*given.batch, {&tail, 1}) == "a pass of 11 keys; expected at most 10");
  }

  TEST_CASE(
      "pass plan: readouts of the same rows share their list, with eight states and eight rows per block") {
    PassCase given;
    given.add(20, {});
    for (std::uint32_t i = 0; i < 10; ++i) given.plan.readouts.push_back({0, i, {1, 2, 3, 4, 5, 6, 7, 8, 9}});
    given.plan.readouts.push_back({0, 3, {5}});
    PassPlanner planner = given.planner(wide);
    REQUIRE(given.run(planner) == "");
    const PassPlan& plan = planner.result();
    REQUIRE(plan.readouts.size() == 5);
    CHECK(plan.logits == 91);
    CHECK(plan.logits_at.back() == 90);
    CHECK(plan.lists.size() == 9 + 10 + 1 + 1);
    const ReadoutBlock& last = plan.readouts[3];  // row 9 of states 8 and 9
    CHECK(last.rows == 1);
    CHECK(last.states == 2);
    CHECK(plan.lists[last.row_begin] == 9);
    CHECK(last.out == 8 * 9 + 8);
    CHECK(last.stride == 9);
  }

  TEST_CASE("pass plan: a pass beyond a bound is refused with its size and the bound") {
    PassCase given;
    given.add(4, {}, Source::cached);
    given.add(10, {0});
    given.plan.readouts = {{1, 9, {1, 2, 3}}};
    const auto refusal = [&](PassBounds bounds) {
      PassPlanner planner = given.planner(bounds);
      return given.run(planner);
    };
    PassBounds exact{10, 14, 3, 1 << 20};
    CHECK(refusal(exact) == "");
    CHECK(refusal({9, 14, 3, 1 << 20}) == "a pass of 10 rows; expected at most 9");
    CHECK(refusal({10, 13, 3, 1 << 20}) == "a pass of 14 keys; expected at most 13");
    CHECK(refusal({10, 14, 2, 1 << 20}) == "a pass of 3 logits; expected at most 2");
    CHECK(refusal({10, 14, 3, 100}).ends_with("bytes of plan; expected at most 100"));
  }

  TEST_CASE("pass plan: rounded numbers are never smaller, and at most an eighth larger") {
    CHECK(rounded_rows(0) == 0);
    CHECK(rounded_rows(1) == 16);
    CHECK(rounded_rows(4096) == 4096);
    for (std::uint32_t n = 1; n < 5000; ++n) {
      CHECK(rounded_rows(n) >= n);
      CHECK(rounded_rows(n) - n < std::max(16u, n / 8 + 1));
      CHECK(rounded_rows(rounded_rows(n)) == rounded_rows(n));
      CHECK(rounded_blocks(n) >= n);
    }
  }

  TEST_CASE("packed pass: it holds every array, and its padding does nothing") {
    const std::uint64_t seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 50; ++round) {
      PassCase given;
      for (std::uint32_t s = 0, segments = 1 + random() % 5; s < segments; ++s) {
        std::vector<std::uint32_t> sees;
        for (std::uint32_t e = 0; e < s; ++e)
          if (random() % 2 == 0) sees.push_back(e);
        given.add(1 + random() % 9, sees, random() % 4 == 0 ? Source::cached : Source::compute,
                  random() % 2 == 0);
        if (given.request.kv[s].source == Source::compute) given.plan.readouts.push_back({s, 0, {1, 2}});
      }
      PassPlanner planner = given.planner(wide);
      REQUIRE(given.run(planner) == "");
      const PassPlan& plan = planner.result();
      const PassShape shape = shape_of(*given.batch, plan);
      std::vector<std::uint64_t> buffer(packed_bytes(shape, plan) / 8 + 2, ~0ull);
      pack(*given.batch, plan, shape, reinterpret_cast<std::byte*>(buffer.data()));
      const PackedPass packed = packed_pass(shape, reinterpret_cast<std::byte*>(buffer.data()));
      CHECK(buffer.back() == ~0ull);
      for (std::uint32_t r = 0; r < shape.rows; ++r)
        REQUIRE(packed.slots[r] == (r < plan.slots.size() ? plan.slots[r] : nullptr));
      const auto* keys = reinterpret_cast<const std::byte* const*>(packed.heap);
      const auto* tiles = reinterpret_cast<const KeyTile*>(packed.heap);
      for (std::uint32_t i = 0; i < shape.attend_read.items; ++i) {
        const AttendItem& item = packed.read_items[i];
        if (i >= plan.attend_read.items.size()) {
          REQUIRE(item.vectors == 0);
          continue;
        }
        const AttendItem& want = plan.attend_read.items[i];
        REQUIRE(keys[item.key_begin] == plan.keys[want.key_begin]);
        REQUIRE(tiles[item.tile_end - 1].count == plan.attend_read.key_tiles[want.tile_end - 1].count);
      }
      const auto* lists = reinterpret_cast<const std::uint32_t*>(packed.heap);
      for (std::uint32_t i = 0; i < shape.readouts; ++i) {
        const ReadoutBlock& block = packed.readouts[i];
        REQUIRE((i >= plan.readouts.size() || lists[block.row_begin + 1] == 2));
        REQUIRE((i < plan.readouts.size() || block.states == 0));
      }
      REQUIRE(*packed.cleared == plan.cleared.size());
    }
  }
}
