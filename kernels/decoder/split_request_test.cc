// Tests of requests in parts, on the decoder: the parts together give the answer of one pass.
#include "kernels/executor/split_request.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "kernels/decoder/decoder.h"
#include "kernels/executor/passes.h"
#include "kernels/testing/small_decoder_test.h"

namespace troupe::kernels {
namespace {

// A query of 10 tokens followed by 6 candidates of 4, each read at its end.
Plan candidates() {
  Plan plan;
  plan.segments.push_back({SegmentKind::user, Tokens(10, 3), 0, {}});
  for (std::uint32_t i = 1; i <= 6; ++i) {
    plan.segments.push_back({SegmentKind::item, Tokens(4, Token(10 + i)), 10, {0}});
    plan.readouts.push_back({i, 3, {1, 2, 3}});
  }
  return plan;
}

struct Pages {
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;

  std::vector<std::byte*> take(const PageLayout& layout, std::size_t tokens) {
    std::vector<std::byte*> taken;
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      const std::size_t bytes = (layout.bytes + 63) / 64 * 64;
      taken.push_back(
          memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), &std::free).get());
    }
    return taken;
  }
};

// The decoder, with passes of at most `tokens_max` tokens.
struct Bounded {
  std::unique_ptr<Executor> decoder = make_cpu_decoder(random_decoder(small_config(), 7), {.page_tokens = 4});
  std::vector<std::size_t> passes;  // computed tokens of each pass

  Reply run(const Request& request, std::size_t tokens_max) {
    Reply reply;
    passes.clear();
    run_in_passes({&request, 1}, {&reply, 1}, [&](std::span<const Request> some, std::span<Reply> answers) {
      if (const std::size_t tokens = computed_tokens(some[0]); tokens > tokens_max)
        return std::to_string(tokens) + " tokens";
      passes.push_back(computed_tokens(some[0]));
      answers[0] = decoder->run(some)[0];
      return std::string();
    });
    return reply;
  }
};

double difference(const Reply& a, const Reply& b) {
  double worst = a.readouts.size() == b.readouts.size() ? 0 : INFINITY;
  for (std::size_t r = 0; r < a.readouts.size(); ++r)
    for (std::size_t i = 0; i < a.readouts[r].size(); ++i)
      worst = std::max(worst, std::abs(double{a.readouts[r].at(i)} - b.readouts[r].at(i)));
  return worst;
}

TEST_CASE("cut request: candidates are scored in parts, each with the query before it") {
  Bounded bounded;
  const Plan plan = candidates();
  const Request request{&plan, std::vector<SegmentKv>(7)};
  const Reply whole = bounded.run(request, 100);
  CHECK(bounded.passes == std::vector<std::size_t>{34});
  const Reply parts = bounded.run(request, 20);
  CHECK(parts.too_large == "");
  CHECK(bounded.passes.size() > 1);
  CHECK(difference(parts, whole) < 1e-5);
  CHECK(bounded.run(request, 13).too_large == "34 tokens");
}

TEST_CASE("cut request: later parts read what an earlier part keeps") {
  Bounded bounded;
  Plan plan = candidates();
  // blocks that see nothing, seen one after another
  for (std::uint32_t i = 1; i <= 6; ++i) plan.segments[i].sees = {};
  for (std::uint32_t i = 1; i <= 6; ++i) plan.segments[i].shift = static_cast<std::int32_t>(4 * i);
  plan.segments.push_back({SegmentKind::instruction, {7, 8}, 12, {}});
  plan.segments.back().replaces = {3, 1};
  plan.segments.push_back({SegmentKind::discriminant, {5}, 60, VisibleSegments::all_before(8)});
  plan.readouts = {{8, 0, {1, 2, 3}}};
  Request request{&plan, std::vector<SegmentKv>(9)};
  const Reply whole = bounded.run(request, 100);
  Pages pages;
  for (std::uint32_t s = 0; s < 8; ++s)
    request.kv[s].pages = pages.take(bounded.decoder->layout(), plan.segments[s].tokens.size());
  const Reply parts = bounded.run(request, 12);
  CHECK(parts.too_large == "");
  CHECK(bounded.passes.size() > 2);
  CHECK(difference(parts, whole) < 1e-5);
  for (std::uint32_t s = 0; s < 8; ++s) request.kv[s].source = Source::cached;
  CHECK(difference(bounded.run(request, 1), whole) < 1e-5);
}

}  // namespace
}  // namespace troupe::kernels
