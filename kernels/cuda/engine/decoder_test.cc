#include "kernels/cuda/engine/decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "kernels/base/float_formats.h"
#include "kernels/cuda/device/device_arena.h"
#include "kernels/cuda/kernels/attend.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"

using namespace troupe::kernels;
using cuda::CudaDecoderOptions;
using cuda::DevicePages;
using cuda::HalfFormat;
using cuda::rounded;
using cuda::small_config;
using cuda::small_options;
using cuda::tolerance;

namespace {

using Chance = std::mt19937_64;

std::uint32_t draw(Chance& chance, std::uint32_t least, std::uint32_t most) {
  return std::uniform_int_distribution<std::uint32_t>(least, most)(chance);
}

DecoderConfig random_config(Chance& chance) {
  DecoderConfig c;
  c.family = static_cast<Family>(draw(chance, 0, 2));
  c.layers = draw(chance, 1, 3), c.kv_heads = draw(chance, 1, 2), c.heads = c.kv_heads * draw(chance, 1, 3);
  c.hidden = 8 * draw(chance, 3, 9), c.intermediate = 8 * draw(chance, 2, 12),
  c.head_dim = 32 * draw(chance, 1, 2);
  c.vocabulary = 97, c.positions_max = 400;
  c.qkv_bias = c.family == Family::qwen2 || (c.family == Family::llama && draw(chance, 0, 1) == 1);
  c.qk_norm = c.family == Family::qwen3;
  c.tied_embeddings = draw(chance, 0, 1) == 1;
  return c;
}

Plan random_plan(const DecoderConfig& c, Chance& chance, std::uint32_t tokens_max = 40) {
  Plan plan;
  for (std::uint32_t s = 0, segments = draw(chance, 1, 6), dense = draw(chance, 1, 4); s < segments; ++s) {
    Segment segment;
    std::vector<Token> tokens(draw(chance, 1, tokens_max));
    for (Token& token : tokens) token = static_cast<Token>(draw(chance, 0, c.vocabulary - 1));
    segment.tokens = std::move(tokens);
    segment.start = static_cast<std::int32_t>(draw(chance, 0, c.positions_max - tokens_max));
    for (std::uint32_t e = 0; e < s; ++e)
      if (draw(chance, 0, dense) != 0) segment.sees.add(e);
    if (draw(chance, 0, 3) == 0)
      segment.shift =
          static_cast<std::int32_t>(draw(chance, 0, c.positions_max - tokens_max)) - segment.start;
    plan.segments.push_back(std::move(segment));
  }
  if (plan.segments.size() > 1) {  // repeats the first segment's first tokens, in place of its last ones
    Segment repaired = plan.segments[0];
    repaired.tokens = repaired.tokens.part(0, (repaired.tokens.size() + 1) / 2);
    repaired.sees = {};
    repaired.replaces = {0,
                         static_cast<std::uint32_t>(plan.segments[0].tokens.size() - repaired.tokens.size())};
    Segment viewer = repaired;
    viewer.replaces = {};
    viewer.sees = VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size()) + 1);
    plan.segments.push_back(std::move(repaired));
    plan.segments.push_back(std::move(viewer));
  }
  const auto last = static_cast<std::uint32_t>(plan.segments.size()) - 1;
  for (std::uint32_t r = 0, readouts = draw(chance, 1, 11); r < readouts; ++r) {
    const std::uint32_t segment = r == 0 ? last : draw(chance, 0, last);
    const auto size = static_cast<std::uint32_t>(plan.segments[segment].tokens.size());
    plan.readouts.push_back({segment, draw(chance, 0, size - 1), {5, 96, 0, 7, 8, 9, 10, 11, 12, 5}});
  }
  return plan;
}

std::vector<std::byte> bytes_of(const std::vector<std::byte*>& pages, const PageLayout& layout) {
  std::vector<std::byte> all(pages.size() * layout.page_bytes());
  cuda::Stream stream;
  for (std::size_t p = 0; p < pages.size(); ++p)
    stream.download(all.data() + p * layout.page_bytes(), pages[p], layout.page_bytes());
  stream.synchronize();
  return all;
}

Request computed(const Plan& plan) { return {&plan, std::vector<SegmentKv>(plan.segments.size())}; }

// Returns the largest difference relative to the largest expected magnitude (at least 1); infinite
// for NaN.
double difference(const Reply& found, const Reply& expected) {
  double worst = 0, magnitude = 1;
  if (found.readouts.size() != expected.readouts.size()) return INFINITY;
  for (std::size_t i = 0; i < expected.readouts.size(); ++i) {
    if (found.readouts[i].size() != expected.readouts[i].size()) return INFINITY;
    for (std::size_t k = 0; k < expected.readouts[i].size(); ++k) {
      const double off = std::abs(double{found.readouts[i][k]} - double{expected.readouts[i][k]});
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
      magnitude = std::max(magnitude, std::abs(double{expected.readouts[i][k]}));
    }
  }
  return worst / magnitude;
}

CudaDecoderOptions random_options(Chance& chance) {
  CudaDecoderOptions options = small_options();
  options.page_tokens = draw(chance, 1, 20);
  options.kv = draw(chance, 0, 1) == 0 ? KvFormat::bf16 : KvFormat::f16;
  options.weights = draw(chance, 0, 1) == 0 ? HalfFormat::bf16 : HalfFormat::f16;
  options.graphs_max = draw(chance, 0, 2);
  return options;
}

}  // namespace

TEST_SUITE("cuda decoder") {
  TEST_CASE(
      "CUDA decoder: random models and batches agree with the CPU's decoder: computed, kept and then "
      "cached") {
    if (!cuda::have_device()) return;
    const std::uint64_t seed = std::random_device()();
    CAPTURE(seed);
    Chance chance(seed);
    for (int round = 0; round < 12; ++round) {
      CAPTURE(round);
      const DecoderConfig config = random_config(chance);
      const CudaDecoderOptions options = random_options(chance);
      const DecoderModel model = rounded(random_decoder(config, chance()), options.weights);
      const auto on_cpu = make_cpu_decoder(model, {});
      const auto decoder = cuda::make_cuda_decoder(model, options);
      DevicePages pages{decoder->layout(), {}};
      std::vector<Plan> plans;
      for (std::uint32_t i = 0, requests = draw(chance, 1, 3); i < requests; ++i)
        plans.push_back(random_plan(config, chance));
      std::vector<Request> batch;
      for (const Plan& plan : plans) batch.push_back(computed(plan));
      const std::vector<Reply> want = on_cpu->run(batch);
      for (Request& request : batch)
        for (std::size_t s = 0; s < request.kv.size(); ++s)
          if (draw(chance, 0, 1) == 1)
            request.kv[s].pages = pages.take(request.plan->segments[s].tokens.size());
      const std::vector<Reply> first = decoder->run(batch);
      for (std::size_t i = 0; i < batch.size(); ++i)
        REQUIRE(difference(first[i], want[i]) <= tolerance(config, options));
      // Run again with the kept segments cached, except where their logits are read.
      for (Request& request : batch)
        for (std::size_t s = 0; s < request.kv.size(); ++s) {
          const bool read =
              std::ranges::any_of(request.plan->readouts, [&](auto& r) { return r.segment == s; });
          if (!read && !request.kv[s].pages.empty()) request.kv[s].source = Source::cached;
        }
      const std::vector<Reply> second = decoder->run(batch);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        REQUIRE(difference(second[i], want[i]) <= tolerance(config, options));
        REQUIRE(difference(second[i], first[i]) <= tolerance(config, options));
      }
    }
  }

  TEST_CASE(
      "CUDA decoder: a recorded pass gives the same result as an unrecorded one, also for other requests") {
    if (!cuda::have_device()) return;
    const DecoderModel model = random_decoder(small_config(Family::qwen3), 5);
    CudaDecoderOptions options = small_options();
    options.graphs_max = 0;
    const auto plain = cuda::make_cuda_decoder(model, options);
    options.graphs_max = 2;
    const auto recorded = cuda::make_cuda_decoder(model, options);
    Chance chance(9);
    for (int round = 0; round < 8; ++round) {
      Plan plan;
      const std::uint32_t tokens = 3 + draw(chance, 0, 3);
      plan.segments = {{SegmentKind::user, std::vector<Token>(tokens, round), round, {}},
                       {SegmentKind::item, {static_cast<Token>(10 + round), 2}, 30, {0}}};
      plan.readouts = {{1, 1, {1, 2, 3}}};
      if (round % 3 == 2) plan.readouts.push_back({0, 0, std::vector<Token>(200, 4)});  // another shape
      const Request request = computed(plan);
      CHECK(difference(recorded->run({&request, 1})[0], plain->run({&request, 1})[0]) == 0);
    }
  }

  TEST_CASE("CUDA decoder: kept pages hold the same as the CPU's decoder, and zeros behind the last token") {
    if (!cuda::have_device()) return;
    for (const KvFormat format : {KvFormat::bf16, KvFormat::f16}) {
      CudaDecoderOptions options = small_options();
      options.kv = format;
      const Family family = format == KvFormat::bf16 ? Family::qwen2 : Family::qwen3;
      const DecoderModel model = rounded(random_decoder(small_config(family), 5), options.weights);
      const auto decoder = cuda::make_cuda_decoder(model, options);
      const auto on_cpu = make_cpu_decoder(model, {.page_tokens = options.page_tokens, .kv = format});
      const KvLayout layout = kv_layout(model.config, options.page_tokens, format);
      DevicePages memory{decoder->layout(), {}};
      Plan plan;
      // No readout: this plan only fills pages.
      plan.segments = {{SegmentKind::user, {1, 2, 3, 4, 5, 6}, 11, {}}};
      Request request = computed(plan);
      const std::vector<std::byte*> on_device = request.kv[0].pages = memory.take(6);
      CHECK(decoder->run({&request, 1})[0].readouts.empty());
      const cuda::PageLockedMemory host(2 * layout.page_bytes());
      request.kv[0].pages = {host.data(), host.data() + layout.page_bytes()};
      on_cpu->run({&request, 1});
      const std::vector<std::byte> found = bytes_of(on_device, decoder->layout());
      const auto number = [&](const std::byte* bytes, std::size_t i) {
        const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(bytes)[i];
        return double{format == KvFormat::bf16 ? from_bf16(bits) : from_f16(bits)};
      };
      std::size_t zeros = 0;
      for (std::size_t i = 0; i < found.size() / 2; ++i) {
        const double got = number(found.data(), i), want = number(host.data(), i);
        REQUIRE(std::abs(got - want) <= 4 * tolerance(small_config(), options));  // the numbers are up to 4
        REQUIRE((want != 0 || got == 0));
        zeros += want == 0 ? 1 : 0;
      }
      CHECK(zeros == 2 * layout.token_bytes() / 2);  // two tokens, two bytes per number
    }
  }

  TEST_CASE(
      "CUDA decoder: few rows with many keys, split among blocks on every device, are merged correctly") {
    if (!cuda::have_device()) return;
    DecoderConfig config = small_config();
    config.layers = 1, config.heads = 2, config.kv_heads = 1;
    CudaDecoderOptions options = small_options();
    options.rows_max = 1200;
    const cuda::AttendGroup group{.row_end = 2, .context_tokens = 4 * 290, .tail_tokens = 2};
    cuda::AttendPlan split;
    cuda::plan_attention(cuda::attend_machine({1, 1, 32, 4, options.kv}, 2, cuda::device_properties(0)),
                         {&group, 1}, std::vector<std::uint32_t>{0, 0}, std::vector<std::uint32_t>{1, 2},
                         split);
    CHECK(split.merges.size() == 1);
    const DecoderModel model = rounded(random_decoder(config, 6), options.weights);
    Chance chance(8);
    Plan plan;
    for (std::uint32_t s = 0; s < 4; ++s) {
      std::vector<Token> tokens(290);
      for (Token& token : tokens) token = static_cast<Token>(draw(chance, 0, 96));
      plan.segments.push_back({SegmentKind::item, std::move(tokens), static_cast<std::int32_t>(s), {}});
    }
    plan.segments.push_back({SegmentKind::user, {3, 4}, 300, {0, 1, 2, 3}});
    plan.readouts = {{4, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}}};
    const Request request = computed(plan);
    const auto want = make_cpu_decoder(model, {})->run({&request, 1});
    const auto found = cuda::make_cuda_decoder(model, options)->run({&request, 1});
    CHECK(difference(found[0], want[0]) <= tolerance(config, options));
  }

  TEST_CASE("CUDA decoder: a pass beyond the bounds is refused before any launch, and the next one runs") {
    if (!cuda::have_device()) return;
    CudaDecoderOptions options = small_options();
    options.rows_max = 8;
    const auto decoder = cuda::make_cuda_decoder(random_decoder(small_config(), 5), options);
    DevicePages memory{decoder->layout(), {}};
    Plan large, small;
    large.segments = {{SegmentKind::user, std::vector<Token>(9, 1), 0, {}}};
    small.segments = {{SegmentKind::user, std::vector<Token>(8, 1), 0, {}}};
    small.readouts = {{0, 7, {3}}};
    Request request = computed(large);
    request.kv[0].pages = memory.take(9);
    CHECK(decoder->run({&request, 1})[0].too_large == "a pass of 9 rows; expected at most 8");
    const std::vector<std::byte> bytes = bytes_of(request.kv[0].pages, decoder->layout());
    CHECK(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0xff}; }));
    request = computed(small);
    CHECK(std::isfinite(decoder->run({&request, 1})[0].readouts[0][0]));
  }

  TEST_CASE("CUDA decoder: an executor over shared weights gives the same logits and outlives the first") {
    if (!cuda::have_device()) return;
    auto first = cuda::make_cuda_decoder(random_decoder(small_config(Family::llama), 5), small_options());
    Chance chance(3);
    const Plan plan = random_plan(small_config(Family::llama), chance);
    const Request request = computed(plan);
    const auto want = first->run({&request, 1});
    const auto second = first->share(1);
    first.reset();
    CHECK(difference(second->run({&request, 1})[0], want[0]) == 0);
  }

  TEST_CASE("CUDA decoder: two executors in two threads give the results of one") {
    if (!cuda::have_device()) return;
    const auto first = cuda::make_cuda_decoder(random_decoder(small_config(), 5), small_options());
    const auto second = first->share(1);
    Chance chance(4);
    const Plan plan = random_plan(small_config(), chance);
    const Request request = computed(plan);
    const auto want = first->run({&request, 1});
    double off[2] = {1, 1};
    const auto run = [&](Executor& decoder, double& worst) {
      worst = 0;
      for (int round = 0; round < 3; ++round)
        worst = std::max(worst, difference(decoder.run({&request, 1})[0], want[0]));
    };
    std::thread beside([&] { run(*second, off[1]); });
    run(*first, off[0]);
    beside.join();
    CHECK(off[0] == 0);
    CHECK(off[1] == 0);
  }

  TEST_CASE(
      "CUDA decoder: empty batches, batches of cached segments only and measured batches are answered") {
    if (!cuda::have_device()) return;
    const auto decoder = cuda::make_cuda_decoder(random_decoder(small_config(), 5), small_options());
    CHECK(decoder->run({}).empty());
    DevicePages memory{decoder->layout(), {}};
    Plan plan;
    plan.segments = {{SegmentKind::user, {1, 2, 3}, 0, {}}};
    Request request = computed(plan);
    request.kv[0] = {Source::cached, memory.take(3)};
    CHECK(decoder->run({&request, 1})[0].readouts.empty());
    plan.readouts = {{0, 2, {4, 5}}, {0, 1, {}}};
    request = computed(plan);
    const auto want = decoder->run({&request, 1});
    CHECK(want[0].readouts[1].empty());
    PassTimes times;
    decoder->measure(&times);
    CHECK(difference(decoder->run({&request, 1})[0], want[0]) == 0);
    for (const double part : {times.planning, times.embedding, times.linear, times.attention,
                              times.elementwise, times.keys_values, times.readout})
      CHECK(part > 0);
  }

  TEST_CASE("CUDA decoder: pages that were demoted and promoted elsewhere give the same answer") {
    if (!cuda::have_device()) return;
    const auto decoder = cuda::make_cuda_decoder(random_decoder(small_config(), 5), small_options());
    const cuda::DeviceArena arena(decoder->layout().page_bytes(), 4);
    cuda::PageCopies copies(decoder->layout().page_bytes(), 1);
    Plan plan;
    plan.segments = {{SegmentKind::user, {1, 2, 3, 4, 5}, 0, {}}, {SegmentKind::item, {9, 8}, 5, {0}}};
    plan.readouts = {{1, 1, {4, 5}}};
    Request request = computed(plan);
    request.kv[0].pages = {arena.page(0), arena.page(1)};
    const auto want = decoder->run({&request, 1});
    const cuda::PageLockedMemory host(2 * decoder->layout().page_bytes());
    const auto places = [&](std::uint32_t first, std::uint32_t second) {
      return std::vector<cuda::PageCopy>{{arena.page(first), host.data()},
                                         {arena.page(second), host.data() + decoder->layout().page_bytes()}};
    };
    copies.finish(copies.demote(places(0, 1)).value());
    copies.finish(copies.promote(places(3, 2)).value());
    request.kv[0] = {Source::cached, {arena.page(3), arena.page(2)}};
    CHECK(difference(decoder->run({&request, 1})[0], want[0]) <= tolerance(small_config(), small_options()));
  }

  TEST_CASE("CUDA decoder: a model without kernels is refused with the reason") {
    DecoderConfig config = small_config();
    CudaDecoderOptions options;
    CHECK(cuda_decoder_fault(config, options) == "");
    config.hidden = 20;
    CHECK(cuda_decoder_fault(config, options) == "hidden 20; on a GPU expected a multiple of 8");
    config = small_config();
    config.head_dim = 48;
    CHECK(cuda_decoder_fault(config, options).starts_with("head_dim 48"));
    config = small_config();
    options.kv = KvFormat::f32;
    CHECK(cuda_decoder_fault(config, options).find("f32") != std::string::npos);
    options = {.keys_max = 1 << 25};
    CHECK(cuda_decoder_fault(config, options).starts_with("keys_max 33554432"));
    options = {.page_tokens = 0};
    CHECK(cuda_decoder_fault(config, options).starts_with("page_tokens 0"));
  }
}
