#include "kernels/cpu/engine/pass_memory.h"

#include <doctest/doctest.h>
#include <malloc.h>

#include <cmath>

#include "kernels/testing/small_decoder_test.h"
#include "kernels/testing/test_fence.h"

namespace troupe::kernels {
namespace {

std::unique_ptr<Executor> decoder_with(std::size_t memory_bytes, std::uint32_t executors = 1) {
  return make_cpu_decoder(
      random_decoder(small_config(), 7),
      {.page_tokens = 4, .executors = executors, .memory_bytes = memory_bytes, .batch_tokens = 40});
}

// A query of 10 tokens followed by candidates of 4, each read at its end.
Plan candidates(std::uint32_t count) {
  Plan plan;
  plan.segments.push_back({SegmentKind::user, Tokens(10, 3), 0, {}});
  for (std::uint32_t i = 1; i <= count; ++i) {
    plan.segments.push_back({SegmentKind::item, Tokens(4, Token(i % 50)), 10, {0}});
    plan.readouts.push_back({i, 3, {1, 2, 3}});
  }
  return plan;
}

Reply answer(Executor& decoder, const Plan& plan) {
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  return decoder.run({&request, 1})[0];
}

std::size_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_CASE("pass memory: a row is counted with all that a pass keeps of it, and executors share the memory") {
  DecoderOptions options{.executors = 4};
  const DecoderConfig config = small_config();
  const std::size_t row = pass_memory(config, options).row_bytes;
  CHECK(row == (24 + 64 + 32 + 8 + 16 + 32) * 4 + 32);
  CHECK(pass_memory(config, options).tokens_max == SIZE_MAX);
  options.memory_bytes = 4000 * row;
  options.batch_tokens = 100;
  CHECK(pass_memory(config, options).tokens_max == 4000);
  CHECK(pass_memory(config, options).tokens_kept == 1000);
  options.memory_bytes = 40 * row;
  CHECK(pass_memory(config, options).tokens_max == 300);  // the longest prompt
  CHECK(pass_memory(config, options).tokens_kept == 100);
  options.cores = 8;  // two heads, so two attend at a time
  CHECK(pass_memory(config, options).row_bytes == row + 64);
  options.cores = 1;
  options.kv = KvFormat::bf16;
  CHECK(pass_memory(config, options).row_bytes == row - 64);
}

TEST_CASE("pass memory: a request beyond a pass runs in several, with the numbers of one") {
  const Plan plan = candidates(200);
  const auto whole = decoder_with(0), bounded = decoder_with(1);
  const Reply expected = answer(*whole, plan), reply = answer(*bounded, plan);
  REQUIRE(reply.readouts.size() == 200);
  CHECK(reply.too_large == "");
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t k = 0; k < 3; ++k)
      CHECK(std::abs(reply.readouts[i][k] - expected.readouts[i][k]) < 1e-4);
}

Plan searching(std::uint32_t width) {
  Plan plan;
  plan.segments.push_back({SegmentKind::user, Tokens(10, 3), 0, {}});
  plan.search.width = plan.search.results = width;
  plan.search.steps = 4;
  return plan;
}

TEST_CASE(
    "pass memory: a search counts its paths' tokens, its prompt if that has no pages, and a level's logits") {
  const DecoderOptions options{.page_tokens = 4};
  const Plan plan = searching(6);
  Request request{.plan = &plan, .kv = {{}}};
  const std::size_t token = 2 * 2 * 2 * 8 * 4;  // layers, heads, keys and values, width, bytes
  CHECK(search_bytes(small_config(), options, request) == 12 * token + 6 * 2 * token + 6 * 50 * 4);
  std::byte page[3];
  request.kv[0].pages = {page, page, page};
  CHECK(search_bytes(small_config(), options, request) == 6 * 2 * token + 6 * 50 * 4);
  const std::vector<Token> a{1, 2}, b{1, 3}, c{4, 5};
  Plan of_items = plan;
  of_items.search.steps = 0;
  request.plan = &of_items;
  request.assets =
      std::make_shared<PathAssets>(std::make_shared<PathIndex>(std::vector<std::span<const Token>>{a, b, c}));
  CHECK(search_bytes(small_config(), options, request) == 6 * 4);  // two of the nodes have two children
}

TEST_CASE(
    "pass memory: a repair counts its tokens, attention by parts, and sums of a key, a value and a count by "
    "offset") {
  Plan plan = candidates(2);
  plan.segments.push_back({SegmentKind::item, Tokens(4, 1), 14, {0}});
  CHECK(repair_bytes(small_config(), {}, plan) == 0);
  plan.repair.reused_spans = {{3, 1, 0}};
  plan.repair.budgets = {1};
  CHECK(repair_bytes(small_config(), {}, plan) == 22 * 64);
  plan.repair.attention = 1;
  CHECK(repair_bytes(small_config(), {}, plan) == 22 * (64 + 2 * 4));
  plan.repair.mean = true;
  CHECK(repair_bytes(small_config(), {}, plan) == 22 * (64 + 2 * 4) + 4 * 2 * (2 * 8 + 1) * 4);
}

TEST_CASE(
    "pass memory: searches that do not fit together run one after another, and one that does not fit is "
    "refused") {
  const auto decoder = decoder_with(4'000), unbounded = decoder_with(0);
  const Plan small = searching(3), wide = searching(100);
  std::vector<Request> requests(5, Request{.plan = &small, .kv = {{}}});
  requests[2].plan = &wide;
  const std::vector<Reply> replies = decoder->run(requests), expected = unbounded->run(requests);
  for (std::size_t i = 0; i < 5; ++i) {
    CAPTURE(i);
    if (i == 2) continue;
    REQUIRE(replies[i].beams.size() == 3);
    for (std::size_t b = 0; b < 3; ++b) CHECK(replies[i].beams[b].path == expected[i].beams[b].path);
  }
  CHECK(expected[2].beams.size() == 100);
  CHECK(replies[2].beams.empty());
  CHECK(replies[2].too_large.find("a search of 100 paths that takes") == 0);
}

TEST_CASE("pass memory: a request that cannot be cut is too large and says by how much") {
  Plan plan = candidates(100);
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i <= 100; ++i) all.push_back(i);
  plan.segments.push_back({SegmentKind::user, Tokens(2, 1), 14, VisibleSegments(all)});
  plan.readouts = {{101, 0, {1}}};
  const auto bounded = decoder_with(1);
  CHECK(answer(*bounded, plan).too_large == "412 computed tokens; expected at most 300 in one pass");
  CHECK(answer(*bounded, candidates(3)).readouts.size() == 3);
}

TEST_CASE("pass memory: a large pass takes the counted memory and frees it") {
  const WithoutFence of_malloc;
  const std::size_t row = pass_memory(small_config(), {.page_tokens = 4}).row_bytes;
  const auto decoder = decoder_with(40'000 * row, 40);
  answer(*decoder, candidates(200));
  const std::size_t before = bytes_in_use();
  if (before == 0) return;  // a sanitizer's allocator does not count
  for (int i = 0; i < 2; ++i) answer(*decoder, candidates(9'000));
  CHECK(bytes_in_use() < before + 1'500 * row);
}

// Pages that have arrived before the pass begins, and turn out to be wrong while it runs.
struct SpoiltPages final : PagesInFlight {
  int asked = 0;
  bool wait(std::size_t) override { return ++asked == 1; }
};

TEST_CASE("pass memory: a large pass that throws frees its memory too, and the next one computes") {
  const std::size_t row = pass_memory(small_config(), {.page_tokens = 4}).row_bytes;
  const auto decoder = decoder_with(40'000 * row, 40);
  const Plan large = candidates(9'000);
  const Reply expected = answer(*decoder, candidates(200));
  const std::size_t before = bytes_in_use();
  for (int i = 0; i < 2; ++i) {
    SpoiltPages spoilt;
    Request request{&large, std::vector<SegmentKv>(large.segments.size())};
    request.in_flight = &spoilt;
    CHECK_THROWS_AS(decoder->run({&request, 1}), PagesNotArrived);
    CHECK(spoilt.asked == 2);
  }
  CHECK(answer(*decoder, candidates(200)).readouts == expected.readouts);
  if (before > 0) CHECK(bytes_in_use() < before + 1'500 * row);
}

TEST_CASE("pass memory: a large pass frees its memory at its end, also when it throws, and lets others run") {
  std::mutex large;
  int freed = 0;
  const auto free_memory = [&] {
    ++freed;
    throw std::bad_alloc();  // of a planner that is made anew
  };
  CHECK(run_large_pass(
            large, [] { return std::string("beyond"); }, free_memory) == "beyond");
  CHECK_THROWS_AS(run_large_pass(
                      large, [] { throw PagesNotArrived(); }, free_memory),
                  PagesNotArrived);
  CHECK(freed == 2);
  CHECK(std::unique_lock(large, std::try_to_lock).owns_lock());
}

}  // namespace
}  // namespace troupe::kernels
