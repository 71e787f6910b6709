#include "kernels/decoder/decoder_batch.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <random>
#include <set>

namespace troupe::kernels {
namespace {

using Numbers = std::vector<std::uint32_t>;

constexpr std::uint32_t page_tokens = 4;
alignas(64) std::byte some_page[64];

DecoderConfig batch_config() {
  DecoderConfig config;
  config.layers = 1, config.kv_heads = 1, config.heads = 1, config.head_dim = 4;
  config.vocabulary = 1000, config.positions_max = 10000;
  return config;
}

// Plans requests whose segments are given as (tokens, sees, cached).
struct PlannerCase {
  BatchPlanner planner{batch_config(), kv_layout(batch_config(), page_tokens, KvFormat::f32)};
  std::vector<Plan> plans = std::vector<Plan>(8);
  std::vector<Request> requests;

  Plan& request() {
    requests.push_back({&plans.at(requests.size()), {}});
    return plans[requests.size() - 1];
  }
  void add(std::uint32_t tokens, Numbers sees, bool cached = false) {
    Plan& plan = plans[requests.size() - 1];
    const std::int32_t start = 10 * static_cast<std::int32_t>(plan.segments.size());
    plan.segments.push_back({SegmentKind::item, Tokens(tokens, start), start, VisibleSegments(sees)});
    SegmentKv kv;
    if (cached)
      kv = {Source::cached, std::vector<std::byte*>((tokens + page_tokens - 1) / page_tokens, some_page)};
    requests.back().kv.push_back(kv);
  }
  const DecoderBatch& run() { return planner.plan(requests); }
};

TEST_CASE("decoder batch: a group that sees both segments leaves out the replaced tokens") {
  PlannerCase given;
  Plan& plan = given.request();
  given.add(10, {}, true);  // two pages and a half
  given.add(2, {});         // replaces tokens 5 and 6
  plan.segments[1].replaces = {0, 5};
  given.add(3, {0, 1});
  given.add(1, {0});
  const DecoderBatch& batch = given.run();
  const auto spans_of = [&](const RowGroup& group) {
    std::vector<Numbers> spans;  // page or row, slot, tokens
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s)
      spans.push_back({batch.spans[s].page != nullptr, batch.spans[s].slot, batch.spans[s].tokens});
    return spans;
  };
  REQUIRE(batch.groups.size() == 3);
  CHECK(spans_of(batch.groups[1]) ==
        std::vector<Numbers>{{1, 0, 4}, {1, 0, 1}, {1, 3, 1}, {1, 0, 2}, {0, 0, 2}});
  CHECK(spans_of(batch.groups[2]) == std::vector<Numbers>{{1, 0, 4}, {1, 0, 4}, {1, 0, 2}});
}

TEST_CASE(
    "decoder batch: a shifted segment is rotated for the segments that see it, and these start a new group") {
  PlannerCase given;
  Plan& plan = given.request();
  given.add(3, {});
  given.add(4, {0});
  given.add(2, {0, 1});
  given.add(5, {0, 1, 2}, true);
  given.add(1, {0, 1, 2, 3});
  plan.segments[1].shift = plan.segments[3].shift = 7;
  const DecoderBatch& batch = given.run();
  CHECK(batch.rotation_distances == std::vector<std::int32_t>{7});
  REQUIRE(batch.groups.size() == 3);
  CHECK(batch.groups[0].row_end == 7);  // a shifted segment continues a group; segments that see it do not
  Numbers rotation_distances;
  for (const ContextSpan& span : batch.spans) rotation_distances.push_back(span.rotation);
  CHECK(rotation_distances == Numbers{0, 1, 0, 1, 0, 1, 1});
}

TEST_CASE("decoder batch: the rotations of a pass do not depend on the pass before") {
  PlannerCase given;
  Plan& plan = given.request();
  given.add(3, {});
  given.add(4, {0});
  plan.segments[1].shift = 7;
  CHECK(given.run().rotation_distances == std::vector<std::int32_t>{7});
  plan.segments[1].shift = -5;
  CHECK(given.run().rotation_distances == std::vector<std::int32_t>{-5});
}

TEST_CASE("decoder batch: a plain causal prompt of many segments is one group without context") {
  PlannerCase given;
  given.request();
  given.add(3, {});
  given.add(2, {0});
  given.add(4, {0, 1});
  const DecoderBatch& batch = given.run();
  REQUIRE(batch.groups.size() == 1);
  CHECK(batch.groups[0].row_end == 9);
  CHECK(batch.spans.empty());
  CHECK(batch.visible_begin == Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(batch.visible_end == Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(batch.positions == Numbers{0, 1, 2, 10, 11, 20, 21, 22, 23});
}

TEST_CASE(
    "decoder batch: candidates behind a cached prefix are one group, which an instruction that sees all "
    "joins") {
  PlannerCase given;
  given.request();
  given.add(6, {}, true);
  given.add(2, {0});
  given.add(2, {0});
  given.add(1, {0, 1, 2});
  const DecoderBatch& batch = given.run();
  REQUIRE(batch.groups.size() == 1);
  REQUIRE(batch.spans.size() == 2);
  CHECK(batch.spans[0].tokens == 4);
  CHECK(batch.spans[1].tokens == 2);
  CHECK(batch.spans[1].page == some_page);
  CHECK(batch.visible_begin == Numbers{0, 0, 2, 2, 0});
  CHECK(batch.visible_end == Numbers{1, 2, 3, 4, 5});
}

TEST_CASE("decoder batch: candidates behind a computed segment are one group apart from it") {
  PlannerCase given;
  given.request();
  given.add(6, {}, true);
  given.add(2, {0});
  given.add(1, {0, 1});
  given.add(1, {0, 1});
  given.add(1, {0, 1});
  const DecoderBatch& batch = given.run();
  REQUIRE(batch.groups.size() == 2);
  CHECK(batch.groups[0].row_end == 2);
  CHECK(batch.groups[1].row_end == 5);
  const std::uint32_t last = batch.groups[1].span_end - 1;
  CHECK(last - batch.groups[1].span_begin == 2);  // behind the pages
  CHECK(batch.spans[last].page == nullptr);
  CHECK(batch.spans[last].tokens == 2);
  CHECK(batch.visible_begin == Numbers{0, 0, 0, 1, 2});
  CHECK(batch.visible_end == Numbers{1, 2, 1, 2, 3});
}

TEST_CASE("decoder batch: adjacent computed context is one span") {
  PlannerCase given;
  given.request();
  given.add(2, {});
  given.add(3, {});
  given.add(1, {0});
  given.add(2, {0, 1});
  const DecoderBatch& batch = given.run();
  REQUIRE(batch.groups.size() == 2);
  CHECK(batch.groups[1].row_begin == 7);
  REQUIRE(batch.groups[1].span_end - batch.groups[1].span_begin == 1);
  CHECK(batch.spans[batch.groups[1].span_begin].row == 0);
  CHECK(batch.spans[batch.groups[1].span_begin].tokens == 2);
}

TEST_CASE("decoder batch: rows with a readout are listed once, and each group knows its own") {
  PlannerCase given;
  given.request().readouts = {{1, 0, {7}}, {0, 1, {8, 9}}};
  given.add(2, {});
  given.add(2, {});
  given.request().readouts = {{0, 2, {1}}, {0, 2, {2}}};
  given.add(3, {});
  const DecoderBatch& batch = given.run();
  CHECK(batch.read.rows == Numbers{1, 2, 6});
  REQUIRE(batch.readouts.size() == 4);
  CHECK(batch.readouts[0].read_row == 1);
  CHECK(batch.readouts[1].read_row == 0);
  CHECK(batch.readouts[2].read_row == 2);
  CHECK(batch.readouts[3].read_row == 2);
  CHECK(batch.readouts[3].request == 1);
  CHECK(batch.read.groups.back().begin == 2);
  CHECK(batch.read.groups.back().end == 3);
}

TEST_CASE(
    "decoder batch: a reused span has its rows and its block's keys with their rotation, and groups know the "
    "rows that measure attention") {
  PlannerCase given;
  given.request();
  given.add(6, {}, true);  // at 0: two pages
  given.add(2, {});        // at 10
  given.add(3, {});
  given.add(6, {2});  // at 30
  given.add(2, {2, 3});
  given.add(1, {2, 3, 4});
  given.plans[0].readouts = {{5, 0, {1}}};
  for (const std::uint32_t segment : {3u, 4u})
    given.plans[0].segments[segment].tokens = given.plans[0].segments[segment - 3].tokens;
  given.plans[0].repair = {
      .reused_spans = {{3, 0, 0}, {4, 1, 0}}, .budgets = {1}, .attention = 1, .attending = 4};
  const DecoderBatch& batch = given.run();
  REQUIRE(batch.repairs.size() == 1);
  REQUIRE(batch.reused_spans.size() == 2);
  CHECK(batch.reused_spans[0].tokens == 6);
  CHECK(batch.positions[batch.reused_spans[0].row] == 30);
  CHECK(batch.positions[batch.reused_spans[1].row] == 40);
  REQUIRE(batch.reused_spans[0].span_end - batch.reused_spans[0].span_begin == 2);
  CHECK(batch.spans[batch.reused_spans[0].span_begin + 1].tokens == 2);
  CHECK(batch.rotation_distances[batch.spans[batch.reused_spans[0].span_begin].rotation - 1] == 30);
  REQUIRE(batch.reused_spans[1].span_end - batch.reused_spans[1].span_begin == 1);
  CHECK(batch.spans[batch.reused_spans[1].span_begin].page == nullptr);
  CHECK(batch.positions[batch.spans[batch.reused_spans[1].span_begin].row] == 10);
  REQUIRE(batch.groups.size() == 1);
  CHECK(batch.groups[0].measured_from == batch.reused_spans[1].row);
  RowSet some{.rows = {1, 5, 13}};
  assign_groups(batch, some);
  CHECK(some.groups[0].end == 3);
  CHECK(some.end == Numbers{2, 6, 14});
  CHECK(some.index_of(13) == 2);
}

TEST_CASE("decoder batch: an empty batch and a request with nothing to compute have no rows") {
  PlannerCase given;
  CHECK(given.run().rows() == 0);
  given.request();
  given.add(5, {}, true);
  CHECK(given.run().rows() == 0);
  CHECK(given.run().groups.empty());
  CHECK(computed_tokens(given.requests[0]) == 0);
}

// Returns true if planning these requests stops the process, as for a bug of the caller.
bool stops(PlannerCase& given) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    close(STDERR_FILENO);
    given.run();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("decoder batch: requests whose pages or plans do not fit stop the process") {
  PlannerCase given;
  given.request();
  given.add(5, {}, true);
  given.add(2, {0});
  CHECK(!stops(given));
  std::vector<std::byte*>& pages = given.requests[0].kv[0].pages;
  pages.pop_back();
  CHECK(stops(given));
  pages.push_back(some_page + 1);
  CHECK(stops(given));
  pages.back() = some_page;
  given.plans[0].readouts = {{0, 0, {1}}};
  CHECK(stops(given));
  given.plans[0].readouts = {{1, 0, {1}}};
  CHECK(!stops(given));
  given.plans[0].segments[1].sees = {1};
  CHECK(stops(given));
  given.plans[0].segments[1].sees = {0};
  given.requests[0].kv.pop_back();
  CHECK(stops(given));
}

// Returns what a row attends to, as (segment, token) up to `last`, by the definition of a plan.
std::multiset<std::uint32_t> defined_sight(const Plan& plan, std::uint32_t segment, std::uint32_t last) {
  std::multiset<std::uint32_t> seen;
  for (const std::uint32_t s : plan.segments[segment].sees) {
    for (std::uint32_t t = 0; t < plan.segments[s].tokens.size(); ++t) seen.insert(100 * s + t);
  }
  for (std::uint32_t t = 0; t <= last; ++t) seen.insert(100 * segment + t);
  return seen;
}

// Returns the same through the batch. Token ids encode (segment, token), and so do the addresses of
// pages.
std::multiset<std::uint32_t> planned_sight(const DecoderBatch& batch, const std::byte* pages,
                                           std::uint32_t row) {
  std::multiset<std::uint32_t> seen;
  for (const RowGroup& group : batch.groups) {
    if (row < group.row_begin || row >= group.row_end) continue;
    for (std::uint32_t s = group.span_begin; s < group.span_end; ++s) {
      const ContextSpan& span = batch.spans[s];
      const auto first_token = static_cast<std::uint32_t>(span.page ? (span.page - pages) / 64 : 0);
      for (std::uint32_t t = 0; t < span.tokens; ++t) {
        seen.insert(span.page ? first_token + t : static_cast<std::uint32_t>(batch.tokens[span.row + t]));
      }
    }
    for (std::uint32_t t = batch.visible_begin[row]; t < batch.visible_end[row]; ++t) {
      seen.insert(static_cast<std::uint32_t>(batch.tokens[group.row_begin + t]));
    }
  }
  return seen;
}

TEST_CASE("decoder batch: every row of a random plan sees exactly what the plan says") {
  const std::uint64_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const std::vector<Line> pages(1000);
  std::byte* base = const_cast<std::byte*>(pages[0].bytes);
  for (int round = 0; round < 300; ++round) {
    PlannerCase given;
    const std::uint32_t segments = 1 + random() % 9, see_of_16 = random() % 17;
    given.request();
    for (std::uint32_t s = 0; s < segments; ++s) {
      Numbers sees;
      for (std::uint32_t e = 0; e < s; ++e) {
        if (random() % 16 < see_of_16) sees.push_back(e);
      }
      given.add(1 + random() % 9, sees, random() % 4 == 0);
      Segment& segment = given.plans[0].segments[s];
      std::vector<Token> tokens(segment.tokens.size());
      std::iota(tokens.begin(), tokens.end(), static_cast<Token>(100 * s));
      segment.tokens = std::move(tokens);
      auto& kept = given.requests[0].kv[s].pages;
      for (std::uint32_t p = 0; p < kept.size(); ++p) kept[p] = base + 64 * (100 * s + page_tokens * p);
    }
    const DecoderBatch& batch = given.run();
    REQUIRE(batch.rows() == computed_tokens(given.requests[0]));
    for (std::uint32_t row = 0; row < batch.rows(); ++row) {
      const auto token = static_cast<std::uint32_t>(batch.tokens[row]);
      REQUIRE(planned_sight(batch, base, row) == defined_sight(given.plans[0], token / 100, token % 100));
    }
  }
}

TEST_CASE("decoder batch: readouts of the same rows are one run, and a state or a head is a run of its own") {
  const std::vector<Token> some{1, 2}, equal{1, 2}, others{1, 3};
  using What = Readout::What;
  const std::vector<BatchReadout> readouts{
      {.vocabulary_rows = some},  {.vocabulary_rows = equal, .what = What::all_rows},
      {.what = What::state},      {.what = What::state},
      {.what = What::head},       {.vocabulary_rows = some},
      {.vocabulary_rows = others}};
  std::vector<std::size_t> ends;
  for (std::size_t first = 0; first < readouts.size(); first = ends.back())
    ends.push_back(end_of_alike(readouts, first));
  CHECK(ends == std::vector<std::size_t>{2, 3, 4, 5, 6, 7});
}

}  // namespace
}  // namespace troupe::kernels
