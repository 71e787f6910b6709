// Tests that a repeated forward pass allocates nothing: all buffers are kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/decoder/decoder.h"
#include "kernels/hstu/hstu.h"
#include "kernels/hstu/hstu_plan.h"
#include "kernels/sasrec/sasrec.h"
#include "tests/allocations/allocation_count.h"

using namespace troupe;
using namespace troupe::kernels;

namespace {

void* volatile escaped;

DecoderConfig micro_config() {
  DecoderConfig config;
  config.layers = 3;
  config.hidden = 64;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 32;
  config.intermediate = 96;
  config.vocabulary = 500;
  config.positions_max = 512;
  config.qkv_bias = true;
  config.tied_embeddings = true;
  return config;
}

std::vector<Token> tokens(std::size_t count, Token first) {
  std::vector<Token> run(count);
  std::iota(run.begin(), run.end(), first);
  return run;
}

// A batch of a history that is kept in pages, items on a cached copy of it, and a whole ranking prompt.
class Batch {
 public:
  explicit Batch(const Executor& decoder) : layout_(decoder.layout()) {
    plans_[0] = {{{SegmentKind::user, tokens(70, 1), 0, {}}}, {{0, 69, tokens(500, 0)}}};
    plans_[1] = {{plans_[0].segments[0]}, {}};
    for (std::uint32_t i = 1; i <= 12; ++i) {
      plans_[1].segments.push_back({SegmentKind::item, tokens(5, Token(100 + i)), 70, {0}});
      plans_[1].readouts.push_back({i, 4, {Token(i), 7}});
    }
    plans_[2] = {{{SegmentKind::system, tokens(9, 1), 0, {}},
                  {SegmentKind::item, tokens(4, 30), 9, {0}},
                  {SegmentKind::item, tokens(6, 40), 9, {0}},
                  {SegmentKind::user, tokens(33, 50), 15, {0, 1, 2}},
                  {SegmentKind::discriminant, tokens(2, 90), 48, {0, 1, 2, 3}}},
                 {{4, 1, tokens(20, 100)}}};
    requests_ = {{&plans_[0], {{Source::compute, pages(70)}}},
                 {&plans_[1], std::vector<SegmentKv>(13)},
                 {&plans_[2], std::vector<SegmentKv>(5)}};
    requests_[1].kv[0] = {Source::cached, pages(70)};
  }
  std::span<const Request> requests() const { return requests_; }

  std::vector<std::byte*> pages(std::size_t count) {
    std::vector<std::byte*> addresses;
    for (std::size_t i = 0; i < layout_.pages_for(count); ++i) {
      memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, layout_.page_bytes())), &std::free);
      std::fill_n(memory_.back().get(), layout_.page_bytes(), std::byte{0});
      addresses.push_back(memory_.back().get());
    }
    return addresses;
  }

 private:
  PageLayout layout_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory_;
  Plan plans_[3];
  std::vector<Request> requests_;
};

// Two searches in one batch, over an index of three levels, and one over the vocabulary.
class SearchBatch {
 public:
  explicit SearchBatch(const Executor& decoder) : history_(decoder) {
    std::vector<std::vector<Token>> paths;
    for (Token a = 0; a < 6; ++a)
      for (Token b = 0; b < 8; ++b)
        for (Token c = 0; c < 5; ++c) paths.push_back({200 + a, 300 + 7 * a % 11 + b, 400 + (a + b) % 3 + c});
    const std::vector<std::span<const Token>> views(paths.begin(), paths.end());
    const auto index = std::make_shared<const PathIndex>(views);
    for (std::uint32_t i = 0; i < 3; ++i) {
      plans_[i].segments = {{SegmentKind::user, tokens(40 + i, Token(1 + i)), 0, {}}};
      plans_[i].search.width = plans_[i].search.results = 20;
      plans_[i].search.by_token = i == 1;
    }
    plans_[2].search.steps = 2;
    plans_[0].search.normalised = Search::Normalisation::allowed;
    for (std::uint32_t i = 0; i < 3; ++i) {
      requests_.push_back({&plans_[i], {{Source::compute, history_.pages(40 + i)}}});
      if (i < 2) requests_.back().assets = std::make_shared<PathAssets>(index);
    }
  }
  // Later passes read the prompts from their pages.
  void cache() {
    for (Request& request : requests_) request.kv[0].source = Source::cached;
  }
  std::span<const Request> requests() const { return requests_; }

 private:
  Batch history_;
  Plan plans_[3];
  std::vector<Request> requests_;
};

HstuConfig small_hstu_config() {
  HstuConfig c;
  c.layers = 2, c.hidden = 48, c.heads = 3, c.head_dim = 16;
  c.vocabulary = 500, c.positions = 101, c.normaliser = 101;
  c.time_buckets = 64, c.bucket_divisor = 0.301;
  return c;
}

std::unique_ptr<Executor> small_hstu(std::uint32_t cores) {
  return make_cpu_hstu(generated_hstu(small_hstu_config()), {.page_tokens = 16, .cores = cores});
}

Plan small_hstu_plan() {
  HstuRequest request{.items = tokens(90, 1), .now = 100'000, .candidates = {1, 2, 3, 4}};
  for (std::int64_t event = 0; event < 90; ++event) request.times.push_back(1000 * event);
  return hstu_plan(small_hstu_config(), request);
}

std::unique_ptr<Executor> small_sasrec(std::uint32_t cores) {
  SasrecConfig c;
  c.layers = 2, c.hidden = 48, c.heads = 3, c.intermediate = 64;
  c.vocabulary = 500, c.history_max = 100, c.position_rows = 101;
  return make_cpu_sasrec(random_sasrec(c, 1), {.page_tokens = 16, .cores = cores});
}

}  // namespace

TEST_SUITE("allocations") {
  TEST_CASE("allocation count: every way to allocate is counted, on every thread, only during the scope" *
            doctest::skip(!AllocationCount::works())) {
    std::unique_ptr<int> before = std::make_unique<int>(1);
    AllocationCount count;
    const std::unique_ptr<int> one = std::make_unique<int>(1);
    escaped = one.get();
    for (void* block : {std::malloc(10), std::aligned_alloc(64, 64)}) {
      escaped = block;  // otherwise the compiler removes the pair
      std::free(block);
    }
    before.reset();
    const Allocations three = count.stop();
    CHECK(three.count == 3);
    CHECK_MESSAGE(three.ours() == 3, three.text());
    AllocationCount with_thread;
    std::thread([] {
      escaped = std::malloc(20);
      std::free(escaped);
    }).join();
    CHECK(with_thread.stop().ours() >= 2);  // by the thread itself, and inside it
    const std::vector<int> after(100);
    CHECK(AllocationCount().stop().count == 0);
  }

  TEST_CASE("allocations: a batch allocates nothing in its third run" *
            doctest::skip(!AllocationCount::works())) {
    for (const WeightFormat weights : {WeightFormat::f32, WeightFormat::bf16})
      for (const std::uint32_t cores : {1u, 2u}) {
        CAPTURE(format_name(weights));
        CAPTURE(cores);
        DecoderOptions options;
        options.cores = cores;
        options.weights = weights;
        if (weights == WeightFormat::bf16) options.kv = KvFormat::bf16;
        const std::unique_ptr<Executor> decoder =
            make_cpu_decoder(random_decoder(micro_config(), 1), options);
        const Batch batch(*decoder);
        std::vector<Reply> logits;
        for (int pass = 0; pass < 2; ++pass) decoder->run(batch.requests(), logits);
        AllocationCount count;
        for (int pass = 0; pass < 3; ++pass) decoder->run(batch.requests(), logits);
        const Allocations found = count.stop();
        CHECK_MESSAGE(found.ours() == 0, found.text());
        if (found.count > found.ours()) MESSAGE("three passes, in libraries: ", found.text());
      }
  }

  TEST_CASE("allocations: batches of models of items allocate nothing in their third run" *
            doctest::skip(!AllocationCount::works())) {
    for (const bool sasrec : {false, true})
      for (const std::uint32_t cores : {1u, 2u}) {
        CAPTURE(sasrec);
        CAPTURE(cores);
        const auto executor = sasrec ? small_sasrec(cores) : small_hstu(cores);
        const Plan plan = sasrec ? sasrec_plan(tokens(90, 1), {1, 2, 3, 4}) : small_hstu_plan();
        const std::vector<Request> batch(3, {&plan, std::vector<SegmentKv>(plan.segments.size())});
        std::vector<Reply> replies;
        for (int pass = 0; pass < 2; ++pass) executor->run(batch, replies);
        AllocationCount count;
        for (int pass = 0; pass < 3; ++pass) executor->run(batch, replies);
        const Allocations found = count.stop();
        CHECK_MESSAGE(found.ours() == 0, found.text());
      }
  }

  // A computed prompt returns its last state in newly allocated memory; a cached one does not.
  TEST_CASE("allocations: searches allocate nothing in their third run, at any level" *
            doctest::skip(!AllocationCount::works())) {
    for (const BeamPaths beams : {BeamPaths::together, BeamPaths::copied, BeamPaths::tree})
      for (const std::uint32_t cores : {1u, 2u}) {
        CAPTURE(static_cast<int>(beams));
        CAPTURE(cores);
        DecoderOptions options;
        options.cores = cores;
        options.beams = beams;
        const std::unique_ptr<Executor> decoder =
            make_cpu_decoder(random_decoder(micro_config(), 1), options);
        SearchBatch batch(*decoder);
        std::vector<Reply> found;
        for (const bool cached : {false, true}) {
          CAPTURE(cached);
          if (cached) batch.cache();
          for (int pass = 0; pass < 2; ++pass) decoder->run(batch.requests(), found);
          AllocationCount count;
          for (int pass = 0; pass < 3; ++pass) decoder->run(batch.requests(), found);
          const Allocations made = count.stop();
          for (const Reply& reply : found) CHECK(reply.beams.size() == 20);
          CHECK_MESSAGE(made.ours() == (cached ? 0 : 3 * 3), made.text());
        }
      }
  }
}
