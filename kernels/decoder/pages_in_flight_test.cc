#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "kernels/checkpoint/model.h"
#include "kernels/decoder/decoder.h"
#include "kernels/executor/executor.h"
#include "kernels/testing/poisoned_pages_test.h"
#include "kernels/testing/small_decoder_test.h"

namespace troupe::kernels {
namespace coming_pages_test {

// Pages that are filled from other pages only when they are waited for, and only as far.
struct PageFiller final : PagesInFlight {
  std::vector<std::byte*> from, to;
  std::vector<std::size_t> asked;
  std::size_t ends_before = SIZE_MAX;  // bytes from here on never arrive

  bool wait(std::size_t bytes) override {
    const std::size_t before = asked.empty() ? 0 : asked.back();
    asked.push_back(bytes);
    if (bytes > ends_before) return false;
    for (std::size_t p = 0; p < to.size(); ++p)
      if (bytes > before) std::memcpy(to[p] + before, from[p] + before, bytes - before);
    return true;
  }
};

// A prompt of ten cached tokens and three that see them.
struct Bench {
  explicit Bench(DecoderOptions options)
      : executor(make_cpu_decoder(random_decoder(small_config(), 5), options)) {
    plan.segments = {{SegmentKind::user, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                     {SegmentKind::instruction, {11, 12, 13}, 10, {0}}};
    plan.readouts = {{1, 2, {4, 5, 6}}};
    pages.layout = executor->layout();
    filler.from = pages.take(10), filler.to = pages.take(10);
    kept.plan = &plan;
    kept.kv = {{Source::compute, filler.from}, {}};
    executor->run({&kept, 1});
    kept.kv[0].source = Source::cached;
    in_flight = kept;
    in_flight.kv[0].pages = filler.to;
    in_flight.in_flight = &filler;
  }
  std::vector<std::vector<float>> scores(const Request& request) {
    return executor->run({&request, 1})[0].readouts;
  }

  std::unique_ptr<Executor> executor;
  Plan plan;
  PoisonedPages pages{};
  PageFiller filler;
  Request kept, in_flight;
};

TEST_SUITE("coming_pages") {
  TEST_CASE("pages in flight: each layer waits for its own part of the pages and reads nothing beyond it") {
    for (const KvFormat format : {KvFormat::f32, KvFormat::f16}) {
      Bench b({.page_tokens = 4, .kv = format});
      CHECK(b.executor->waits_by_layer());
      const auto right = b.scores(b.kept);
      CHECK(b.scores(b.in_flight) == right);  // reading too early would give NaN
      const std::size_t layer = b.executor->layout().page_bytes() / small_config().layers;
      CHECK(b.filler.asked == std::vector<std::size_t>{layer, 2 * layer});
    }
  }

  TEST_CASE("pages in flight: a page that does not arrive ends the pass, and the next pass is unaffected") {
    Bench b({.page_tokens = 4});
    const auto right = b.scores(b.kept);
    b.filler.ends_before = b.executor->layout().page_bytes() / 2 + 1;
    CHECK_THROWS_AS(b.scores(b.in_flight), PagesNotArrived);
    CHECK(b.filler.asked.size() == 2);
    CHECK(b.scores(b.kept) == right);
  }

  TEST_CASE("pages in flight: a search behind a prompt that is all cached waits for all of it") {
    Bench b({.page_tokens = 4});
    for (Request* request : {&b.kept, &b.in_flight}) request->kv.resize(1);
    b.plan.segments.resize(1);
    b.plan.readouts.clear();
    b.plan.search = {.segment = 0, .width = 3, .results = 2, .steps = 2};
    const auto right = b.executor->run({&b.kept, 1})[0].beams;
    const auto found = b.executor->run({&b.in_flight, 1})[0].beams;
    REQUIRE(found.size() == right.size());
    CHECK(found[0].path == right[0].path);
    CHECK(found[0].log_probability == right[0].log_probability);
  }
}

}  // namespace coming_pages_test
}  // namespace troupe::kernels
