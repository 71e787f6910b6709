#include "kernels/decoder/decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "kernels/testing/pass_times_test.h"
#include "kernels/testing/poisoned_pages_test.h"
#include "kernels/testing/test_tokens.h"

namespace troupe::kernels {
namespace decoder_test {

constexpr std::uint32_t page_tokens = 4;

// Covers the features of the three architectures: bias, q/k norm, tied and own output rows.
DecoderConfig family_config(Family family) {
  DecoderConfig config;
  config.family = family;
  config.layers = 3, config.hidden = 24, config.heads = 4, config.kv_heads = 2, config.head_dim = 10;
  config.intermediate = 36, config.vocabulary = 50, config.positions_max = 300;
  config.qkv_bias = family == Family::qwen2;
  config.qk_norm = family == Family::qwen3;
  config.tied_embeddings = family != Family::llama;
  return config;
}

std::unique_ptr<Executor> small_decoder(Family family = Family::qwen2, KvFormat kv = KvFormat::f32) {
  return make_cpu_decoder(random_decoder(family_config(family), 7), {.page_tokens = page_tokens, .kv = kv});
}

Segment segment(std::vector<Token> tokens, std::int32_t start, std::vector<std::uint32_t> sees) {
  return {SegmentKind::item, std::move(tokens), start, VisibleSegments(sees)};
}

// A system prompt, two items that see it, a user that sees all, and a discriminant with one
// readout.
Plan item_prefix_plan() {
  Plan plan;
  plan.segments = {segment({1, 2, 3}, 0, {}), segment({10, 11, 12, 13, 14}, 3, {0}),
                   segment({20, 21}, 3, {0}), segment({30, 31, 32, 33}, 8, {0, 1, 2}),
                   segment({5}, 12, {0, 1, 2, 3})};
  plan.readouts = {{4, 0, {6, 7, 49, 0}}};
  return plan;
}

Request computed(const Plan& plan) { return {&plan, std::vector<SegmentKv>(plan.segments.size())}; }

// Returns the largest difference of two results; infinite if shapes differ or a value is NaN.
double difference(const Reply& a, const Reply& b) {
  const double infinite = std::numeric_limits<double>::infinity();
  if (a.readouts.size() != b.readouts.size()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < a.readouts.size(); ++i) {
    if (a.readouts[i].size() != b.readouts[i].size()) return infinite;
    for (std::size_t k = 0; k < a.readouts[i].size(); ++k) {
      const double off = std::abs(double{a.readouts[i][k]} - b.readouts[i][k]);
      worst = std::isnan(off) ? infinite : std::max(worst, off);
    }
  }
  return worst;
}

constexpr double rounding = 1e-4;  // logits are near 1; float32 sums in another order

TEST_CASE("decoder: segments read from pages give the logits that computing them gives") {
  for (const Family family : {Family::qwen2, Family::qwen3, Family::llama}) {
    const auto decoder = small_decoder(family);
    PoisonedPages memory{decoder->layout(), {}};
    const Plan plan = item_prefix_plan();
    Request request = computed(plan);
    const auto plain = decoder->run({&request, 1});
    for (std::size_t s = 0; s < 4; ++s) request.kv[s].pages = memory.take(plan.segments[s].tokens.size());
    CHECK(difference(decoder->run({&request, 1})[0], plain[0]) < rounding);
    for (unsigned cached = 1; cached < 16; ++cached) {
      CAPTURE(cached);
      for (std::size_t s = 0; s < 4; ++s)
        request.kv[s].source = cached >> s & 1 ? Source::cached : Source::compute;
      CHECK(difference(decoder->run({&request, 1})[0], plain[0]) < rounding);
    }
  }
}

TEST_CASE("decoder: a request of cached segments without readouts computes nothing") {
  for (const WeightFormat weights : {WeightFormat::f32, WeightFormat::int8, WeightFormat::bf16}) {
    const auto decoder = make_cpu_decoder(random_decoder(family_config(Family::qwen2), 7),
                                          {.page_tokens = page_tokens, .weights = weights});
    PoisonedPages memory{decoder->layout(), {}};
    Plan plan;
    plan.segments = {segment({1, 2, 3, 4, 5}, 0, {})};
    Request request = computed(plan);
    request.kv[0].pages = memory.take(5);
    decoder->run({&request, 1});
    request.kv[0].source = Source::cached;
    CHECK(decoder->run({&request, 1})[0].readouts.empty());
  }
}

TEST_CASE("decoder: a prompt cut into segments gives the logits of the whole prompt") {
  const auto decoder = small_decoder();
  Plan whole, cut;
  whole.segments = {segment({1, 2, 3, 4, 5, 6, 7}, 0, {})};
  whole.readouts = {{0, 6, {9, 8}}, {0, 2, {1}}};
  cut.segments = {segment({1, 2}, 0, {}), segment({3}, 2, {0}), segment({4, 5, 6, 7}, 3, {0, 1})};
  cut.readouts = {{2, 3, {9, 8}}, {1, 0, {1}}};
  const Request requests[] = {computed(whole), computed(cut)};
  const auto logits = decoder->run(requests);
  CHECK(difference(logits[0], logits[1]) < rounding);
}

TEST_CASE("decoder: only tokens that are seen affect the logits") {
  const auto decoder = small_decoder();
  Plan plan = item_prefix_plan(), unseen = plan, seen = plan;
  plan.segments[4].sees = unseen.segments[4].sees = {0, 2, 3};
  plan.segments[3].sees = unseen.segments[3].sees = {0, 2};
  unseen.segments[1].tokens = seen.segments[1].tokens = changed(plan.segments[1].tokens, 2, 40);
  const Plan original = item_prefix_plan();
  const Request requests[] = {computed(plan), computed(unseen), computed(original), computed(seen)};
  const auto logits = decoder->run(requests);
  CHECK(difference(logits[0], logits[1]) < rounding);
  CHECK(difference(logits[2], logits[3]) > 10 * rounding);
}

TEST_CASE("decoder: a batch gives every request the answer it gets alone, whatever ran before") {
  const auto decoder = small_decoder();
  Plan a = item_prefix_plan(), b = a, c;
  b.segments[3].tokens = {40, 41};
  b.segments.resize(4);
  b.readouts = {{3, 1, {3, 2, 1}}, {1, 4, {9}}};
  c.segments = {segment({17}, 299, {})};
  c.readouts = {{0, 0, {4}}};
  const Request requests[] = {computed(a), computed(b), computed(c)};
  const auto together = decoder->run(requests);
  REQUIRE(together.size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(difference(decoder->run({&requests[i], 1})[0], together[i]) < rounding);
  CHECK(difference(together[0], decoder->run(requests)[0]) < rounding);
  CHECK(decoder->run({}).empty());
}

TEST_CASE("decoder: each part of a pass takes time, and the parts together no more than the pass") {
  const Plan plan = item_prefix_plan();
  const Request request = computed(plan);
  PassParts parts = all_parts();
  parts.pop_back();  // without the search
  for (const Family family : {Family::qwen2, Family::qwen3})
    check_pass_times(*small_decoder(family), request, parts);
}

TEST_CASE("decoder: readouts and their rows come in the order of the plan") {
  const auto decoder = small_decoder();
  Plan plan = item_prefix_plan();
  plan.readouts = {{3, 2, {5, 4, 5}}, {0, 1, {}}, {3, 2, {4}}, {1, 0, {30, 31}}};
  Request request = computed(plan);
  const auto all = decoder->run({&request, 1})[0].readouts;
  REQUIRE(all.size() == 4);
  REQUIRE(all[0].size() == 3);
  CHECK(all[0][0] == all[0][2]);
  CHECK(all[0][1] == all[2][0]);
  CHECK(all[1].empty());
  plan.readouts = {{1, 0, {31}}};
  CHECK(std::abs(decoder->run({&request, 1})[0].readouts[0][0] - all[3][1]) < rounding);
}

TEST_CASE("decoder: an executor over shared weights gives the same logits, and outlives the first") {
  auto first = small_decoder(Family::llama);
  const Plan plan = item_prefix_plan();
  const Request request = computed(plan);
  const auto expected = first->run({&request, 1});
  const auto second = first->share(1);
  first.reset();
  CHECK(second->limits().vocabulary == 50);
  CHECK(difference(second->run({&request, 1})[0], expected[0]) == 0);
}

bool all_bytes(const std::byte* from, std::size_t count, std::byte value) {
  return std::all_of(from, from + count, [&](std::byte b) { return b == value; });
}

TEST_CASE("decoder: kept pages are written whole, with zeros behind the last token") {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    const auto decoder = small_decoder(Family::qwen2, format);
    const KvLayout layout = kv_layout(family_config(Family::qwen2), page_tokens, format);
    PoisonedPages memory{decoder->layout(), {}};
    Plan plan;
    plan.segments = {segment({1, 2, 3, 4, 5, 6}, 0, {})};  // no readout: only to fill pages
    Request request = computed(plan);
    request.kv[0].pages = memory.take(6);
    CHECK(decoder->run({&request, 1})[0].readouts.empty());
    const std::size_t token = layout.vector_bytes();
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
        for (const std::size_t at : {layout.keys(layer, head), layout.values(layer, head)})
          for (std::size_t t = 0; t < page_tokens; ++t) {
            const std::byte* first = request.kv[0].pages[0] + at + t * token;
            const std::byte* second = request.kv[0].pages[1] + at + t * token;
            REQUIRE(!all_bytes(first, token, std::byte{0xff}));
            REQUIRE(!all_bytes(first, token, std::byte{0}));
            REQUIRE(all_bytes(second, token, std::byte{0}) == (t >= 2));
          }
  }
}

TEST_CASE("decoder: 16-bit formats take half the bytes") {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16}) {
    const KvLayout layout = kv_layout(family_config(Family::qwen2), page_tokens, format);
    CHECK(small_decoder(Family::qwen2, format)->layout() == page_layout(layout));
    CHECK(2 * layout.token_bytes() == small_decoder()->layout().token_bytes());
    CHECK(2 * layout.page_bytes() == small_decoder()->layout().page_bytes());
    CHECK(layout.values(2, 1) + layout.head_bytes() == layout.page_bytes());
  }
}

TEST_CASE("decoder: a key or value too large for its format gives NaN, computed or read") {
  DecoderModel model = random_decoder(family_config(Family::qwen2), 7);
  for (float& x : model.weights.layers[1].v.values) x *= 1e6f;
  Plan plan = item_prefix_plan();
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    const auto decoder = make_cpu_decoder(model, {.page_tokens = page_tokens, .kv = format});
    PoisonedPages memory{decoder->layout(), {}};
    Request request = computed(plan);
    request.kv[1].pages = memory.take(plan.segments[1].tokens.size());
    for (const Source source : {Source::compute, Source::cached}) {
      request.kv[1].source = source;
      const std::vector<Reply> logits = decoder->run({&request, 1});
      for (const float logit : logits[0].readouts[0])
        CHECK(std::isfinite(logit) == (format != KvFormat::f16));
    }
  }
}

}  // namespace decoder_test
}  // namespace troupe::kernels
