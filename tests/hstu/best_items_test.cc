// Tests that a search of an HSTU finds the items whose next-item logits, as its readouts have them, are
// best: cold, and with a cached prefix, for each layer that has such logits.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "kernels/hstu/cpu_hstu.h"
#include "kernels/hstu/hstu_plan.h"
#include "kernels/testing/poisoned_pages_test.h"

using namespace troupe::kernels;

namespace {

HstuConfig searched_config(std::mt19937& random) {
  HstuConfig c;
  c.layers = 1 + random() % 2;
  c.hidden = 16, c.heads = 2, c.head_dim = 8;
  c.vocabulary = 2 + random() % 900;
  c.positions = 31, c.history_max = 20, c.normaliser = 31;
  c.time_buckets = 128, c.bucket_divisor = 0.301;
  c.temperature = 0.05;
  if (random() % 2 == 0) c.output_norm = HstuOutputNorm::layer_norm;
  if (random() % 2 == 0) c.item_l2 = false;
  return c;
}

// A history and all items as candidates of the next-item readout, with a search behind the last event.
struct SearchedHistory {
  Plan plan;
  std::size_t items = 0;

  SearchedHistory(const HstuConfig& c, std::mt19937& random) : items(c.vocabulary) {
    HstuRequest request;
    for (std::size_t i = 2 + random() % 18; i-- > 0;) {
      request.items.push_back(static_cast<Token>(1 + random() % (c.vocabulary - 1)));
      request.times.push_back(1000 * static_cast<std::int64_t>(request.items.size()));
    }
    request.now = 100'000;
    plan = hstu_plan(c, request);
    plan.readouts.resize(1);
    plan.readouts[0].rows.resize(items);
    std::iota(plan.readouts[0].rows.begin(), plan.readouts[0].rows.end(), 0);
    plan.search.segment = plan.readouts[0].segment;
    plan.search.width = plan.search.results = 1 + static_cast<std::uint32_t>(random() % 30);
    plan.search.steps = 1;
    plan.search.of_items = true;
    plan.search.denied = {{request.items[0]}};
  }

  std::vector<Token> best(const std::vector<float>& logits) const {
    std::vector<Token> rows;
    for (std::size_t row = 1; row < items; ++row)
      if (static_cast<Token>(row) != plan.search.denied[0][0]) rows.push_back(static_cast<Token>(row));
    std::ranges::stable_sort(rows, [&](Token a, Token b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    rows.resize(std::min<std::size_t>(rows.size(), plan.search.results));
    return rows;
  }
};

std::vector<Token> rows_of(const std::vector<Beam>& beams) {
  std::vector<Token> rows;
  for (const Beam& beam : beams) rows.push_back(beam.path.at(0));
  return rows;
}

TEST_CASE("hstu: a search finds the items with the best next-item logits, cold and behind a cached prefix") {
  std::mt19937 random(8);
  for (int trial = 0; trial < 40; ++trial) {
    CAPTURE(trial);
    const HstuConfig config = searched_config(random);
    // With bf16 weights the search scans the items in bf16; what it finds is what float32 logits rank.
    const WeightFormat weights = trial % 2 == 0 ? WeightFormat::f32 : WeightFormat::bf16;
    const auto executor = make_cpu_hstu(generated_hstu(config), {.page_tokens = 4, .weights = weights});
    const SearchedHistory asked(config, random);
    REQUIRE(validate(asked.plan, executor->limits()).empty());
    PoisonedPages pages{executor->layout(), {}};
    Request request{&asked.plan, {}};
    for (const Segment& segment : asked.plan.segments)
      request.kv.push_back({Source::compute, pages.take(segment.tokens.size())});
    for (const bool warm : {false, true}) {
      const Reply reply = executor->run({&request, 1})[0];
      REQUIRE(reply.readouts.size() == 1);
      const std::vector<Token> rows = rows_of(reply.beams);
      CHECK(rows == asked.best(reply.readouts[0]));
      for (const Beam& beam : reply.beams)
        CHECK(beam.score == double{reply.readouts[0][static_cast<std::size_t>(beam.path[0])]});
      if (!warm) request.kv[0].source = Source::cached;
    }
  }
}

TEST_CASE("hstu: the production layer and items that are not in memory have no search") {
  HstuConfig config;
  config.vocabulary = 5, config.positions = 9, config.hidden = 4;
  CHECK(plan_limits(config, ItemRows::in_memory).width_max == search_width_max);
  CHECK(plan_limits(config, ItemRows::in_memory).item_searches);
  CHECK(plan_limits(config, ItemRows::apart).width_max == 0);
  CHECK(plan_limits(config).width_max == 0);
  config.kind = HstuLayerKind::stu;
  CHECK(plan_limits(config, ItemRows::in_memory).width_max == 0);
}

}  // namespace
