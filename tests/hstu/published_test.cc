// Tests HSTU models drawn over everything that the constructors of the published codes take, against the
// float64 reference: Meta's research code and NVIDIA's layer, cold and with cached blocks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/hstu/cpu_hstu.h"
#include "kernels/operations/versions.h"
#include "tests/hstu/hstu_reference.h"

using namespace troupe;
using namespace troupe::hstu;
using kernels::HstuConfig;
using kernels::HstuHeadActivation;
using kernels::HstuLayerKind;
using kernels::HstuModel;
using kernels::HstuOutputNorm;
using kernels::Plan;
using kernels::Request;
using kernels::Segment;
using kernels::SegmentKv;
using kernels::Source;
using kernels::VisibleSegments;

namespace {

constexpr double tolerance = 2e-5;  // of the largest number of a readout, and of 1 at least

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}

  bool one_in(unsigned count) { return random_() % count == 0; }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  std::uint32_t one_of(std::initializer_list<std::uint32_t> some) {
    return some.begin()[random_() % some.size()];
  }

  HstuConfig config() { return one_in(3) ? nvidia() : research(); }

  HstuConfig research() {
    HstuConfig c = shape();
    if (one_in(2)) c.value_dim = one_of({1, 7, 16, 40});
    if (c.value_dim == c.head_dim) c.value_dim = 0;
    c.positions = c.history_max + one_of({1, 2, 11});
    c.normaliser = one_in(4) ? 1 + below(300) : c.positions;
    c.projections_silu = !one_in(3);
    c.concat = one_in(2);
    if (one_in(3)) c.action_dim = 1 + below(c.hidden - 1), c.actions = 1 + below(9);
    c.softmax = one_in(3);
    if (c.softmax) c.scale = 1 / std::sqrt(1.0 + below(40)), c.heads = 1, c.normaliser = 1;
    c.pair_bias = !c.softmax || !one_in(2);
    if (c.pair_bias) c.time_buckets = one_of({3, 64, 128}), c.bucket_divisor = one_of({1, 3}) * 0.301 / 3;
    if (c.action_dim == 0 && !c.softmax && one_in(4)) c.head_hidden = 6, c.tasks = 1 + below(3);
    return c;
  }

  HstuConfig nvidia() {
    HstuConfig c = shape();
    c.kind = HstuLayerKind::nvidia;
    c.positions = one_in(4) ? 0 : 1 + below(150);
    c.normaliser = 1 + below(300);
    c.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    c.epsilon = 1e-5;
    c.scales_input = c.positions > 0;
    c.input_affine = !one_in(3), c.output_affine = !one_in(3), c.uvqk_bias = !one_in(3);
    c.residual = !one_in(4);
    if (!one_in(4)) c.actions = 1 + below(9);
    for (std::uint32_t k = one_in(2) ? 0 : 1 + below(3); k > 0; --k) c.context_rows.push_back(1 + below(5));
    if (!one_in(3)) c.context_tokens = c.contexts();
    if (one_in(3)) return c;
    for (std::uint32_t k = below(3); k > 0; --k) c.head_layers.push_back(1 + below(20));
    c.tasks = 1 + below(8);
    c.head_activation = one_in(2) ? HstuHeadActivation::relu : HstuHeadActivation::gelu;
    c.head_bias = !one_in(3);
    return c;
  }

  HstuRequest request(const HstuConfig& c, std::size_t events, std::size_t candidates) {
    HstuRequest request;
    std::int64_t now = 880'000'000;
    for (std::size_t i = 0; i < events; ++i) {
      request.items.push_back(item());
      request.times.push_back(now);
      if (c.actions > 0) request.actions.push_back(below(c.actions));
      now += one_in(3) ? 0 : static_cast<std::int64_t>(std::exp(double(below(18))));
    }
    request.now = now;
    for (std::size_t i = 0; i < candidates; ++i) request.candidates.push_back(item());
    for (const std::uint32_t rows : c.context_rows) request.contexts.push_back(below(rows));
    return request;
  }

 private:
  kernels::Token item() { return static_cast<kernels::Token>(1 + below(99)); }

  HstuConfig shape() {
    HstuConfig c;
    c.layers = 1 + below(3);
    c.hidden = one_of({8, 24, 50, 65});
    c.heads = one_of({1, 2, 3});
    c.head_dim = one_of({1, 4, 16, 25, 33});
    c.vocabulary = 100;
    c.history_max = 10 + below(60);
    c.output_norm = one_in(3) ? HstuOutputNorm::layer_norm : HstuOutputNorm::l2;
    c.output_epsilon = one_in(2) ? 0 : 1e-3;
    c.item_l2 = !one_in(3);
    c.temperature = one_of({1, 5}) / 20.0 * 1.0;
    return c;
  }

  std::mt19937 random_;
};

double gap(const std::vector<std::vector<float>>& found, const std::vector<Row>& wanted) {
  if (found.size() != wanted.size()) return INFINITY;
  double most = 0;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (found[r].size() != wanted[r].size()) return INFINITY;
    double size = 1;
    for (const double number : wanted[r]) size = std::max(size, std::abs(number));
    for (std::size_t i = 0; i < wanted[r].size(); ++i) {
      const double off = std::abs(double{found[r][i]} - wanted[r][i]) / size;
      if (!(off <= most)) most = off;  // also true for NaN
    }
  }
  return most;
}

// Returns an executor with the kernels of one of the instruction sets that this CPU has.
std::unique_ptr<kernels::Executor> executor_of(const HstuModel& model, std::size_t number) {
  std::vector<kernels::HstuKernels> all;
  for (const kernels::ProductVersion& product : kernels::product_versions()) {
    const auto named = [&](auto versions) { return &kernels::version_named(versions, product.name); };
    if (product.usable)
      all.push_back({named(kernels::gate_versions()), named(kernels::silu_attend_versions())->run,
                     named(kernels::readout_versions())->run, &product});
  }
  kernels::Teams teams;
  teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet(), 1.0));
  return make_cpu_hstu(model, {.page_tokens = 3, .cores = 2}, all[number % all.size()], std::move(teams));
}

std::vector<std::vector<float>> run(kernels::Executor& executor, const Request& asked) {
  REQUIRE(validate(*asked.plan, executor.limits()) == "");
  REQUIRE(executor.fault(*asked.plan) == "");
  return executor.run({&asked, 1})[0].readouts;
}

// Pages of a segment, with all bytes set.
struct BlockPages {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> addresses;

  BlockPages(const kernels::PageLayout& layout, std::size_t tokens) {
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      auto& page = bytes.emplace_back(layout.bytes + 64, std::byte{0xff});
      void* at = page.data();
      std::size_t capacity = page.size();
      addresses.push_back(static_cast<std::byte*>(std::align(64, layout.bytes, at, capacity)));
    }
  }
};

// Cuts the plan's first segment into parts of so many tokens, each of which sees those before it.
Plan in_parts(const Plan& whole, std::size_t part, std::size_t features, std::size_t& parts) {
  const Segment& first = whole.segments[0];
  Plan plan;
  for (std::size_t begin = 0; begin < first.tokens.size(); begin += part) {
    const std::size_t end = std::min(first.tokens.size(), begin + part);
    Segment segment{.kind = first.kind,
                    .tokens = first.tokens.part(begin, end - begin),
                    .start = first.start + static_cast<std::int32_t>(begin),
                    .sees = VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size()))};
    segment.features.assign(first.features.begin() + static_cast<std::ptrdiff_t>(features * begin),
                            first.features.begin() + static_cast<std::ptrdiff_t>(features * end));
    plan.segments.push_back(std::move(segment));
  }
  parts = plan.segments.size();
  const std::uint32_t moved = static_cast<std::uint32_t>(parts - 1);
  for (std::size_t s = 1; s < whole.segments.size(); ++s) {
    plan.segments.push_back(whole.segments[s]);
    plan.segments.back().sees =
        VisibleSegments::all_before(moved + (s == 1 ? 1 : whole.segments[s].sees.ranges().back().end));
  }
  plan.readouts = whole.readouts;
  for (kernels::Readout& readout : plan.readouts) readout.segment += moved;
  return plan;
}

// Returns whether the segment's outputs are read.
bool is_read(const Plan& plan, std::size_t segment) {
  return std::ranges::any_of(plan.readouts,
                             [&](const kernels::Readout& readout) { return readout.segment == segment; });
}

}  // namespace

TEST_SUITE("published HSTU") {
  TEST_CASE("published HSTU: 200 models drawn over all that the constructors take equal the reference") {
    Drawn drawn(47);
    double most = 0;
    std::size_t differences = 0;
    for (std::size_t number = 0; number < 200; ++number) {
      CAPTURE(number);
      const HstuConfig config = drawn.config();
      const HstuModel model = generated_hstu(config);
      const auto executor = executor_of(model, number);
      for (const std::size_t events :
           {std::size_t{1}, std::size_t{2}, std::size_t{3 + drawn.below(config.history_max - 3)},
            std::size_t{config.history_max}}) {
        const Plan plan = hstu_plan(config, drawn.request(config, events, 1 + drawn.below(9)));
        const Request asked{&plan, std::vector<SegmentKv>(plan.segments.size())};
        const double off = gap(run(*executor, asked), compute(model, plan).readouts);
        most = std::max(most, off);
        differences += !(off < tolerance);
        CHECK(off < tolerance);
      }
    }
    MESSAGE("largest difference ", most);
    CHECK(differences == 0);
  }

  TEST_CASE("published HSTU: histories cached as prefixes give the numbers of a cold pass") {
    Drawn drawn(48);
    std::size_t checked = 0;
    for (std::size_t number = 0; checked < 60; ++number) {
      CAPTURE(number);
      const HstuConfig config = drawn.config();
      if (config.whole_history()) continue;
      ++checked;
      const HstuModel model = generated_hstu(config);
      const auto executor = executor_of(model, number);
      const HstuRequest request = drawn.request(config, 3 + drawn.below(config.history_max - 3), 4);
      std::size_t parts = 0;
      const Plan plan = in_parts(hstu_plan(config, request), 1 + drawn.below(8), config.features(), parts);
      const std::vector<Row> wanted = compute(model, plan).readouts;
      Request asked{&plan, std::vector<SegmentKv>(plan.segments.size())};
      std::vector<BlockPages> pages;
      for (std::size_t s = 0; s < parts; ++s) {
        pages.emplace_back(executor->layout(), plan.segments[s].tokens.size());
        asked.kv[s].pages = pages.back().addresses;
      }
      CHECK(gap(run(*executor, asked), wanted) < tolerance);  // writes the pages
      for (std::size_t s = 0; s < parts; ++s) {
        if (is_read(plan, s)) continue;
        asked.kv[s].source = Source::cached;
        CHECK(gap(run(*executor, asked), wanted) < tolerance);
      }
    }
  }

  TEST_CASE("published HSTU: a whole history with contextual features is reused by other candidates") {
    Drawn drawn(49);
    for (std::size_t number = 0, checked = 0; checked < 20; ++number) {
      const HstuConfig config = drawn.nvidia();
      if (config.context_tokens == 0 || config.tasks == 0) continue;
      CAPTURE(number);
      ++checked;
      const HstuModel model = generated_hstu(config);
      const auto executor = executor_of(model, number);
      HstuRequest request = drawn.request(config, 1 + drawn.below(config.history_max), 4);
      Plan plan = hstu_plan(config, request);
      plan.readouts.pop_back();  // the state of the history
      BlockPages pages(executor->layout(), plan.segments[0].tokens.size());
      Request asked{&plan, std::vector<SegmentKv>(plan.segments.size())};
      asked.kv[0].pages = pages.addresses;
      CHECK(gap(run(*executor, asked), compute(model, plan).readouts) < tolerance);
      request.candidates = drawn.request(config, 1, 7).candidates;
      Plan other = hstu_plan(config, request);
      other.readouts.pop_back();
      Request again{&other, std::vector<SegmentKv>(other.segments.size())};
      again.kv[0] = {Source::cached, pages.addresses};
      CHECK(gap(run(*executor, again), compute(model, other).readouts) < tolerance);
    }
  }

  TEST_CASE("published HSTU: plans that the model cannot compute are refused") {
    Drawn drawn(50);
    HstuConfig config = drawn.research();
    config.softmax = true, config.heads = 1, config.tasks = 0, config.action_dim = config.actions = 0;
    const HstuRequest request = drawn.request(config, 9, 2);
    std::size_t parts = 0;
    const Plan whole = hstu_plan(config, request), cut = in_parts(whole, 4, config.features(), parts);
    CHECK(plan_fault(config, whole) == "");
    CHECK(
        plan_fault(config, cut) ==
        "a plan of 3 segments; expected the whole history as one segment, as each row depends on all of it");

    HstuConfig acted = drawn.nvidia();
    acted.actions = 4, acted.context_rows = {3}, acted.context_tokens = 1;
    Plan plan = hstu_plan(acted, drawn.request(acted, 5, 2));
    CHECK(plan_fault(acted, plan) == "");
    plan.segments[0].features[2] = 4;
    CHECK(plan_fault(acted, plan) == "segment 0, token 2: action 4; expected 0 to 3");
    plan.segments[0].features[2] = -1;
    CHECK(plan_fault(acted, plan) == "segment 0, token 2: action -1; expected 0 to 3");
    plan.segments[0].features[2] = 0;
    plan.segments[0].features[0] = 1;
    CHECK(plan_fault(acted, plan) == "segment 0, token 0: action 1; expected -1, for a contextual feature");
    plan.segments[0].features[0] = -1;
    // A token that is a row of another table, or a readout of a row that is no item, is outside the items.
    const auto fault_with = [&](std::uint32_t token, kernels::Token row) {
      Plan changed = plan;
      std::vector<kernels::Token> tokens(changed.segments[0].tokens.begin(),
                                         changed.segments[0].tokens.end());
      tokens[token] = row;
      changed.segments[0].tokens = std::move(tokens);
      return plan_fault(acted, changed);
    };
    CHECK(fault_with(0, 102) == "");
    CHECK(fault_with(0, 99) == "segment 0, token 0: 99; expected 100 to 102, a row of contextual feature 0");
    CHECK(fault_with(1, 100) == "segment 0, token 1: 100; expected 0 to 99, an item");
    plan.readouts[0] = {.segment = 0, .offset = 0, .rows = {99, 100}};
    REQUIRE(validate(plan, plan_limits(acted)) == "");
    CHECK(plan_fault(acted, plan) == "readout 0: row 100; expected 0 to 99, an item");
  }
}
