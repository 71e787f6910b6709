// Tests HSTU against numbers that independent programs computed, and its executor against the float64
// reference, for all sources of keys and values and on every instruction set of this machine.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "kernels/hstu/cpu_hstu.h"
#include "kernels/hstu/hstu_plan.h"
#include "kernels/operations/versions.h"
#include "kernels/testing/pass_times_test.h"
#include "kernels/testing/test_folder.h"
#include "tests/hstu/hstu_golden.h"

using namespace troupe;
using namespace troupe::hstu;
using kernels::HstuConfig;
using kernels::HstuModel;
using kernels::Plan;
using kernels::Request;
using kernels::SegmentKv;
using kernels::Source;

namespace {

double gap(const std::vector<float>& found, const std::vector<double>& wanted, std::size_t count = SIZE_MAX) {
  count = std::min(count, wanted.size());
  if (found.size() < count) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double off = std::abs(double{found[i]} - wanted[i]);
    if (!(off <= most)) most = off;  // also true for NaN
  }
  return most;
}

HstuModel with_mask(HstuModel model, const GoldenCase& one) {
  model.config.context_tokens = one.context_tokens;
  model.config.window = one.window;
  return model;
}

// Returns how far the outputs of a plan are from a golden case: the next items', the tasks', the state's.
double golden_gap(const std::vector<std::vector<float>>& readouts, const GoldenCase& one) {
  const std::size_t first = one.next_items.empty() ? 0 : 1;
  double most = first == 1 ? gap(readouts[0], one.next_items) : 0;
  for (std::size_t c = 0; c < one.tasks.size(); ++c)
    most = std::max(most, gap(readouts[first + c], {one.tasks[c]}));
  return std::max(most, gap(readouts.back(), one.state_first8));
}

std::vector<std::vector<float>> run_one(kernels::Executor& executor, const Plan& plan) {
  REQUIRE(validate(plan, executor.limits()) == "");
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  return executor.run({&request, 1})[0].readouts;
}

// Reads the production layer's directory: its configuration is beside the generator's file.
HstuModel read_production(const std::filesystem::path& folder) {
  const kernels::TestFolder copy;
  std::filesystem::copy_file(folder / "config-stu.json", copy.path() / "config.json");
  std::filesystem::copy_file(folder / "generator.json", copy.path() / "generator.json");
  return kernels::read_hstu(copy.path());
}

// Pages of a segment, with all bytes set.
struct SegmentPages {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> addresses;

  SegmentPages(const kernels::PageLayout& layout, std::size_t tokens) {
    for (std::size_t p = 0; p < layout.pages_for(tokens); ++p) {
      auto& page = bytes.emplace_back(layout.bytes + 64, std::byte{0xff});
      void* at = page.data();
      std::size_t capacity = page.size();
      addresses.push_back(static_cast<std::byte*>(std::align(64, layout.bytes, at, capacity)));
    }
  }
};

HstuConfig small_config(std::mt19937& random, bool production) {
  const auto one_of = [&](std::initializer_list<std::uint32_t> some) {
    return some.begin()[random() % some.size()];
  };
  HstuConfig c;
  if (production) c.kind = kernels::HstuLayerKind::stu;
  c.layers = 1 + random() % 3;
  c.hidden = one_of({8, 24, 64, 65});
  c.heads = one_of({1, 2, 3});
  c.head_dim = one_of({4, 16, 24, 33});
  c.vocabulary = 200;
  c.positions = 120;
  c.normaliser = 120;
  c.scale = production ? 1 / std::sqrt(static_cast<double>(c.head_dim)) : 1;
  c.temperature = 0.05;
  c.head_hidden = 16, c.tasks = 2;
  if (!production) c.time_buckets = 128, c.bucket_divisor = 0.301;
  return c;
}

HstuRequest random_request(std::mt19937& random, std::size_t events, std::size_t candidates,
                           bool ascending = true) {
  HstuRequest request;
  std::int64_t now = 880'000'000;
  for (std::size_t i = 0; i < events; ++i) {
    request.items.push_back(static_cast<kernels::Token>(1 + random() % 199));
    request.times.push_back(now);
    const std::int64_t later =
        random() % 3 == 0 ? 0 : static_cast<std::int64_t>(std::exp(double(random() % 18)));
    now += ascending || random() % 2 == 0 ? later : -later;
  }
  request.now = now;
  for (std::size_t i = 0; i < candidates; ++i)
    request.candidates.push_back(static_cast<kernels::Token>(1 + random() % 199));
  return request;
}

double reference_gap(const std::vector<std::vector<float>>& readouts, const HstuModel& model,
                     const Plan& plan) {
  const Reference wanted = compute(model, plan);
  double most = 0;
  for (std::size_t r = 0; r < readouts.size(); ++r)
    most = std::max(most, gap(readouts[r], wanted.readouts[r]));
  return most;
}

// Returns the kernels of each instruction set that this CPU has.
std::vector<kernels::HstuKernels> usable_kernels() {
  std::vector<kernels::HstuKernels> all;
  for (const kernels::ProductVersion& product : kernels::product_versions()) {
    const auto named = [&](auto versions) { return &kernels::version_named(versions, product.name); };
    if (product.usable)
      all.push_back({named(kernels::gate_versions()), named(kernels::silu_attend_versions())->run,
                     named(kernels::readout_versions())->run, &product});
  }
  return all;
}

std::unique_ptr<kernels::Executor> executor_of(const HstuModel& model, const kernels::HstuKernels& kernels,
                                               kernels::DecoderOptions options = {.page_tokens = 3}) {
  kernels::Teams teams;
  teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet(), 1.0));
  options.cores = 2;
  return make_cpu_hstu(model, options, kernels, std::move(teams));
}

// Largest difference from the reference: of a readout relative to its largest number, of the next items
// as a difference of cosines.
double relative_gap(const std::vector<std::vector<float>>& readouts, const HstuModel& model,
                    const Plan& plan) {
  const Reference wanted = compute(model, plan);
  double most = 0;
  for (std::size_t r = 0; r < readouts.size(); ++r) {
    double size = 1;
    for (const double number : wanted.readouts[r]) size = std::max(size, std::abs(number));
    if (r == 0 && reads_next_items(model.config)) size = 1 / model.config.temperature;
    most = std::max(most, gap(readouts[r], wanted.readouts[r]) / size);
  }
  return most;
}

}  // namespace

#define SKIP_WITHOUT(name)                                                \
  const std::optional<std::filesystem::path> folder = shared_model(name); \
  if (!folder) {                                                          \
    MESSAGE("skipped: no ../shared/models/" name);                        \
    return;                                                               \
  }

TEST_SUITE("hstu") {
  TEST_CASE("HSTU: the trained model has the golden outputs, in float64 and by the executor") {
    SKIP_WITHOUT("tiny-hstu-movielens");
    const HstuModel model = kernels::read_hstu(*folder);
    const auto executor = kernels::make_cpu_hstu(model, {.page_tokens = 4});
    double most = 0, most_reference = 0;
    for (const GoldenCase& one : golden_cases(*folder / "golden.json")) {
      const Plan plan = hstu_plan(model.config, one.request);
      most = std::max(most, golden_gap(run_one(*executor, plan), one));
      const Reference reference = compute(model, plan);
      std::vector<std::vector<float>> rounded;
      for (const Row& row : reference.readouts) rounded.emplace_back(row.begin(), row.end());
      most_reference = std::max(most_reference, golden_gap(rounded, one));
    }
    MESSAGE("largest difference ", most, ", of the reference ", most_reference);
    CHECK(most < 2e-5);            // states are as large as 22
    CHECK(most_reference < 2e-6);  // rounding of the compared values to float32
  }

  TEST_CASE("HSTU: boundaries of time buckets equal the golden ones") {
    SKIP_WITHOUT("tiny-hstu-movielens");
    const nlohmann::json golden = nlohmann::json::parse(std::ifstream(*folder / "golden.json"));
    CHECK(kernels::TimeBuckets(0.301, 128).boundaries() ==
          golden.at("time_bucket_boundaries").get<std::vector<std::uint64_t>>());
  }

  TEST_CASE("HSTU: the model of serving size has the golden outputs in the research layer") {
    SKIP_WITHOUT("random-hstu-512");
    const HstuModel model = kernels::read_hstu(*folder);
    const auto executor = kernels::make_cpu_hstu(model, {.page_tokens = 16});
    double most = 0;
    for (const GoldenCase& one : golden_cases(*folder / "golden.json"))
      most = std::max(most, golden_gap(run_one(*executor, hstu_plan(model.config, one.request)), one));
    MESSAGE("largest difference ", most);
    CHECK(most < 1e-5);
  }

  TEST_CASE("HSTU: the model of serving size has the golden outputs in the production layer") {
    SKIP_WITHOUT("random-hstu-512");
    const HstuModel model = read_production(*folder);
    double most = 0;
    for (const GoldenCase& one : golden_stu_cases(*folder)) {
      const HstuModel masked = with_mask(model, one);
      const Plan plan = hstu_plan(masked.config, one.request);
      most = std::max(most,
                      golden_gap(run_one(*kernels::make_cpu_hstu(masked, {.page_tokens = 16}), plan), one));
    }
    MESSAGE("largest difference ", most);
    CHECK(most < 1e-5);
  }

  TEST_CASE("HSTU: masks of the production layer equal the published ones") {
    SKIP_WITHOUT("random-hstu-512");
    const nlohmann::json golden = nlohmann::json::parse(std::ifstream(*folder / "golden-stu.json"));
    for (const nlohmann::json& mask : golden.at("masks")) {
      HstuConfig config;
      config.kind = kernels::HstuLayerKind::stu;
      config.tasks = 1;
      config.context_tokens = mask.at("contextual_sequence_length");
      config.window = mask.at("max_attention_length");
      const std::size_t rows = mask.at("rows"), targets = mask.at("num_targets");
      HstuRequest request{
          std::vector<kernels::Token>(rows - targets, 1), {}, 0, std::vector<kernels::Token>(targets, 1)};
      const auto sees = visibility({config, {}, nullptr, {}}, hstu_plan(config, request));
      for (std::size_t r = 0; r < rows; ++r) {
        std::string text;
        for (const bool one : sees[r]) text += one ? '1' : '0';
        CHECK(text == mask.at("sees")[r]);
      }
    }
  }

  TEST_CASE("HSTU: cached rows and new events give the golden outputs along a chain of requests") {
    SKIP_WITHOUT("tiny-hstu-movielens");
    const HstuModel model = kernels::read_hstu(*folder);
    const auto executor = kernels::make_cpu_hstu(model, {.page_tokens = 4});
    const std::vector<GoldenCase> cases = golden_cases(*folder / "golden.json");
    std::vector<SegmentPages> pages;
    std::vector<std::pair<std::size_t, std::size_t>> blocks;  // events [begin, end) in pages
    for (std::size_t c = 9; c <= 13; ++c) {
      const HstuRequest& request = cases[c].request;
      const Plan whole = hstu_plan(model.config, request);
      // The history without its last event, cut where earlier requests' histories ended.
      Plan plan;
      const kernels::Segment& history = whole.segments[0];
      const std::size_t from = blocks.empty() ? 0 : blocks.back().second, end = history.tokens.size();
      auto cuts = blocks;
      cuts.emplace_back(from, end);
      for (const auto& [begin, until] : cuts) {
        kernels::Segment segment{kernels::SegmentKind::user,
                                 history.tokens.part(begin, until - begin),
                                 static_cast<std::int32_t>(begin),
                                 {}};
        segment.features.assign(history.features.begin() + static_cast<std::ptrdiff_t>(2 * begin),
                                history.features.begin() + static_cast<std::ptrdiff_t>(2 * until));
        if (!plan.segments.empty())
          segment.sees.add(kernels::VisibleSegments::Range{0, std::uint32_t(plan.segments.size())});
        plan.segments.push_back(segment);
      }
      const auto moved = static_cast<std::uint32_t>(cuts.size() - 1);
      for (std::size_t s = 1; s < whole.segments.size(); ++s) {
        kernels::Segment segment = whole.segments[s];
        segment.sees = {};
        segment.sees.add(kernels::VisibleSegments::Range{0, s == 1 ? moved + 1 : moved + 2});
        plan.segments.push_back(segment);
      }
      plan.readouts = whole.readouts;
      for (kernels::Readout& readout : plan.readouts) readout.segment += moved;
      REQUIRE(validate(plan, executor->limits()) == "");
      Request asked{&plan, std::vector<SegmentKv>(plan.segments.size())};
      pages.emplace_back(executor->layout(), end - from);
      for (std::size_t s = 0; s < cuts.size(); ++s) {
        asked.kv[s].pages = pages[s].addresses;
        if (s + 1 < cuts.size()) asked.kv[s].source = Source::cached;
      }
      CHECK(computed_tokens(asked) == end - from + 1 + request.candidates.size());
      const auto readouts = executor->run({&asked, 1})[0].readouts;
      CHECK(golden_gap(readouts, cases[c]) < 2e-5);
      blocks.emplace_back(from, end);
    }
  }

  TEST_CASE("HSTU: random plans match the reference, alone and in batches, on every instruction set") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 12; ++round) {
      HstuConfig config = small_config(random, round % 3 == 2);
      if (config.production() && random() % 2 == 0) config.window = 1 + random() % 20;
      if (config.production() && random() % 2 == 0) config.context_tokens = 1 + random() % 4;
      const HstuModel model = generated_hstu(config);
      std::vector<Plan> plans;
      for (const std::size_t events : {std::size_t{1}, std::size_t{2}, std::size_t{7 + random() % 100}})
        plans.push_back(
            hstu_plan(config, random_request(random, std::max<std::size_t>(events, config.context_tokens),
                                             1 + random() % 40, round % 4 != 1)));
      for (const kernels::HstuKernels& kernels : usable_kernels()) {
        CAPTURE(kernels.gates->name);
        const auto executor = executor_of(model, kernels);
        std::vector<Request> batch;
        for (const Plan& plan : plans) batch.push_back({&plan, std::vector<SegmentKv>(plan.segments.size())});
        const auto replies = executor->run(batch);
        for (std::size_t p = 0; p < plans.size(); ++p) {
          CHECK(reference_gap(replies[p].readouts, model, plans[p]) < 2e-4);
          CHECK(reference_gap(run_one(*executor, plans[p]), model, plans[p]) < 2e-4);
        }
      }
    }
  }

  // A number that is rounded to bf16 is off by at most 2^-8 of itself, uniformly: by 2^-8/sqrt(3) in
  // standard deviations, and a product of two such numbers by sqrt(2) times that. A sum of products is a
  // random walk like its error, so the share stays. A layer has four such stages: two linear layers, the
  // scores and the weighted sum of values; the head has two. Stages add up, and a layer at most doubles
  // the error that it inherits.
  TEST_CASE("HSTU: bf16 weights are within their rounding of the reference, on every instruction set") {
    std::mt19937 random(5);
    for (int round = 0; round < 6; ++round) {
      const HstuConfig config = small_config(random, round % 3 == 2);
      const HstuModel model = generated_hstu(config);
      const Plan plan = hstu_plan(config, random_request(random, 7 + random() % 90, 1 + random() % 20));
      const double allowed = 2 * 0x1p-8 * std::sqrt(2.0 / 3.0) * (4 * config.layers + 2);
      for (const kernels::HstuKernels& kernels : usable_kernels())
        for (const kernels::KvFormat kv : {kernels::KvFormat::f32, kernels::KvFormat::bf16}) {
          CAPTURE(kernels.product->name);
          const auto executor = executor_of(
              model, kernels, {.page_tokens = 3, .kv = kv, .weights = kernels::WeightFormat::bf16});
          CHECK(relative_gap(run_one(*executor, plan), model, plan) < allowed);
        }
    }
  }

  TEST_CASE("HSTU: cached blocks and new events equal recomputation, wherever the history is cut") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const HstuModel model = generated_hstu(small_config(random, false));
    const auto executor = executor_of(model, usable_kernels()[0]);
    for (int round = 0; round < 10; ++round) {
      const HstuRequest request = random_request(random, 20 + random() % 80, 5);
      const Plan whole = hstu_plan(model.config, request);
      const auto wanted = run_one(*executor, whole);
      Request asked{&whole, std::vector<SegmentKv>(whole.segments.size())};
      SegmentPages pages(executor->layout(), whole.segments[0].tokens.size());
      asked.kv[0].pages = pages.addresses;
      CHECK(executor->run({&asked, 1})[0].readouts == wanted);  // writes them to the pages
      asked.kv[0].source = Source::cached;
      const auto reused = executor->run({&asked, 1})[0].readouts;
      for (std::size_t r = 0; r < wanted.size(); ++r)
        CHECK(gap(reused[r], std::vector<double>(wanted[r].begin(), wanted[r].end())) < 1e-5);
      // A block does not contain the request's time: a later request reuses it.
      HstuRequest later = request;
      later.now += 400 * 86400;
      const Plan another = hstu_plan(model.config, later);
      CHECK(another.segments[0] == whole.segments[0]);
      asked.plan = &another;
      CHECK(reference_gap(executor->run({&asked, 1})[0].readouts, model, another) < 2e-4);
    }
  }

  TEST_CASE("HSTU: every part of a pass takes time, and all parts at most the pass's time") {
    std::mt19937 random(4);
    kernels::PassParts parts = kernels::all_parts();
    parts.pop_back();  // this model does not search
    for (const bool production : {false, true}) {
      const HstuConfig config = small_config(random, production);
      const Plan plan = hstu_plan(config, random_request(random, 60, 10));
      const auto executor = kernels::make_cpu_hstu(generated_hstu(config), {.page_tokens = 4});
      kernels::check_pass_times(*executor, {&plan, std::vector<SegmentKv>(plan.segments.size())}, parts);
    }
  }

  TEST_CASE("HSTU: a request beyond a pass's memory runs in parts; extreme times are refused as too large") {
    std::mt19937 random(3);
    HstuConfig config = small_config(random, false);
    const HstuModel model = generated_hstu(config);
    const Plan plan = hstu_plan(config, random_request(random, 110, 40));
    const auto roomy = kernels::make_cpu_hstu(model, {.page_tokens = 4});
    const auto tight =
        kernels::make_cpu_hstu(model, {.page_tokens = 4, .memory_bytes = 1, .batch_tokens = 120});
    const auto wanted = run_one(*roomy, plan), found = run_one(*tight, plan);
    for (std::size_t r = 0; r < wanted.size(); ++r)
      CHECK(gap(found[r], std::vector<double>(wanted[r].begin(), wanted[r].end())) < 1e-5);

    config.positions = 2000;
    const auto long_ones = kernels::make_cpu_hstu(generated_hstu(config), {.page_tokens = 4});
    HstuRequest request = random_request(random, 1999, 1);
    std::ranges::shuffle(request.times, random);
    const Plan disordered = hstu_plan(config, request);
    const Request asked{&disordered, std::vector<SegmentKv>(disordered.segments.size())};
    CHECK(long_ones->run({&asked, 1})[0].too_large.find("expected times that do not decrease") !=
          std::string::npos);
  }
}
