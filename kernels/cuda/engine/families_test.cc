// Compares HSTU, Climber and plans with a repair on a device with the CPU's executors, as far as
// kernels/ alone can test on a GPU. tests/hstu and tests/reference compare them with float64 and
// with golden files, emulated.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/cuda/engine/climber.h"
#include "kernels/cuda/engine/hstu.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"
#include "kernels/hstu/hstu_plan.h"
#include "kernels/testing/small_climber_test.h"

namespace troupe::kernels::cuda {
namespace {
namespace families_test {

CudaRankerOptions ranker_options(KvFormat kv) {
  CudaRankerOptions options{.page_tokens = 4,
                            .kv = kv,
                            .rows_max = 1024,
                            .keys_max = 8000,
                            .logits_max = 4000,
                            .plan_bytes_max = 1 << 20};
  if (kv == KvFormat::f16) options.weights = HalfFormat::f16;
  return options;
}
double ranker_tolerance(KvFormat kv) {
  return kv == KvFormat::f32 ? 2e-5 : kv == KvFormat::f16 ? 1e-2 : 6e-2;
}

Request computed(const Plan& plan) { return {&plan, std::vector<SegmentKv>(plan.segments.size())}; }

// Returns the largest difference, relative to the readout's largest number or 1.
double difference(const Reply& found, const Reply& expected) {
  double worst = found.too_large.empty() ? 0 : INFINITY;
  for (std::size_t r = 0; r < expected.readouts.size(); ++r)
    for (std::size_t i = 0; i < expected.readouts[r].size(); ++i) {
      double largest = 1;
      for (const float x : expected.readouts[r]) largest = std::max(largest, std::abs(double{x}));
      const double off = std::abs(double{found.readouts.at(r).at(i)} - expected.readouts[r][i]) / largest;
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
  return worst;
}

HstuConfig hstu_config(bool production) {
  HstuConfig c;
  if (production) c.kind = kernels::HstuLayerKind::stu;
  c.layers = 2, c.hidden = 64, c.heads = 2, c.head_dim = 64;
  c.vocabulary = 200, c.positions = 260, c.normaliser = 260, c.scale = 0.125, c.temperature = 0.05;
  c.head_hidden = 16, c.tasks = 2;
  if (!production) c.time_buckets = 128, c.bucket_divisor = 0.301;
  return c;
}

// Checks that each part of a pass takes time, and that parts get no time after measuring ended.
void check_parts(Executor& executor, const Request& asked) {
  const Reply before = executor.run({&asked, 1})[0];
  PassTimes times;
  executor.measure(&times);
  CHECK(difference(executor.run({&asked, 1})[0], before) == 0);
  for (double PassTimes::*part :
       {&PassTimes::planning, &PassTimes::embedding, &PassTimes::linear, &PassTimes::attention,
        &PassTimes::elementwise, &PassTimes::keys_values, &PassTimes::readout})
    CHECK(times.*part > 0);
  executor.measure(nullptr);
  const double linear = times.linear;
  executor.run({&asked, 1});
  CHECK(times.linear == linear);
}

TEST_CASE("CUDA HSTU: every format gives the same as the CPU's executor, in both layers") {
  if (!have_device()) return;
  std::mt19937 random(3);
  for (const bool production : {false, true}) {
    const HstuModel model = generated_hstu(hstu_config(production));
    HstuRequest request;
    for (std::int64_t i = 0, time = 0; i < 230; ++i, time += static_cast<std::int64_t>(random() % 100'000)) {
      request.items.push_back(static_cast<Token>(1 + random() % 199));
      request.times.push_back(time);
    }
    request.now = request.times.back() + 77;
    for (int i = 0; i < 90; ++i) request.candidates.push_back(static_cast<Token>(1 + random() % 199));
    const Plan plan = hstu_plan(model.config, request);
    const Request asked = computed(plan);
    const Reply expected = make_cpu_hstu(model, {.page_tokens = 4})->run({&asked, 1})[0];
    for (const KvFormat kv : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
      CAPTURE(int(kv));
      const auto executor = make_cuda_hstu(model, ranker_options(kv));
      CHECK(difference(executor->run({&asked, 1})[0], expected) < ranker_tolerance(kv));
      if (kv == KvFormat::f16) check_parts(*executor, asked);
    }
  }
}

TEST_CASE("CUDA Climber: every format gives the same as the CPU's executor") {
  if (!have_device()) return;
  std::mt19937 random(4);
  ClimberConfig config = small_climber_config();
  config.hidden = 128, config.heads = 2, config.expert_size = 16, config.head_size = 8;
  config.towers = {{ClimberStrategy::recent, 120}, {ClimberStrategy::liked, 60}};
  const ClimberModel model = random_climber(config, 5);
  const Plan plan = climber_plan(config, random_climber_request(config, random, 150, 100));
  const Request asked = computed(plan);
  const Reply expected = make_cpu_climber(model, {.page_tokens = 4})->run({&asked, 1})[0];
  for (const KvFormat kv : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    CAPTURE(int(kv));
    const auto executor = make_cuda_climber(model, ranker_options(kv));
    CHECK(difference(executor->run({&asked, 1})[0], expected) < ranker_tolerance(kv));
    if (kv == KvFormat::f16) check_parts(*executor, asked);
  }
}

// Returns a plan with blocks of 20 tokens computed alone, and a prompt that uses them behind a
// history.
Plan repaired_plan(std::mt19937& random) {
  Plan plan;
  for (std::uint32_t block = 0; block < 8; ++block) {
    std::vector<Token> tokens(20);
    for (Token& token : tokens) token = static_cast<Token>(random() % 97);
    plan.segments.push_back({SegmentKind::item, std::move(tokens), 0, {}});
  }
  plan.segments.push_back({SegmentKind::user, {1, 2, 3, 4, 5}, 0, {}});
  const auto add = [&](const Tokens& tokens) {
    const auto index = static_cast<std::uint32_t>(plan.segments.size());
    const auto start = static_cast<std::int32_t>(5 + 20 * (index - 9));
    VisibleSegments sees;
    sees.add({8, index});
    plan.segments.push_back({SegmentKind::item, tokens, start, sees});
    return index;
  };
  for (std::uint32_t block = 0; block < 8; ++block)
    plan.repair.reused_spans.push_back({add(plan.segments[block].tokens), block, 0});
  plan.readouts.push_back({add({7, 8}), 1, {5, 96, 0, 7, 8, 9, 10}});
  plan.repair.attending = 8;
  return plan;
}

TEST_CASE(
    "CUDA repair: a plan with a repair gives the CPU's answer with the same tokens, however they are "
    "chosen") {
  if (!have_device()) return;
  std::mt19937 random(5);
  DecoderConfig config = small_config(Family::qwen3);
  config.layers = 4;
  CudaDecoderOptions options = small_options();
  options.kv = KvFormat::f16, options.weights = HalfFormat::f16;
  const DecoderModel model = rounded(random_decoder(config, 6), options.weights);
  const auto decoder = make_cuda_decoder(model, options);
  const auto on_cpu = make_cpu_decoder(model, {.page_tokens = options.page_tokens});
  for (const auto& [attention, divergence] : {std::pair{1.0f, 0.0f}, {0.0f, 1.0f}, {1.0f, 0.5f}})
    for (const bool mean : {false, true}) {
      Plan plan = repaired_plan(random);
      plan.repair.attention = attention, plan.repair.divergence = divergence, plan.repair.mean = mean;
      plan.repair.budgets = {48};
      if (divergence > 0 && attention > 0 && mean) {  // budgets of their own measures
        for (std::size_t span = 4; span < 8; ++span) plan.repair.reused_spans[span].budget = 1;
        plan.repair.budgets = {24, 24};
        plan.repair.factors = {{1, 1}, {1, 0}};
      }
      plan.repair.exact_layers = mean ? 2 : 1;
      const Request asked = computed(plan);
      const Reply found = decoder->run({&asked, 1})[0];
      REQUIRE(found.chosen.size() == 48);
      std::vector<std::uint32_t> apart;
      std::ranges::set_difference(on_cpu->run({&asked, 1})[0].chosen, found.chosen,
                                  std::back_inserter(apart));
      CHECK(apart.size() <= 3);  // tokens whose scores are equal within 16-bit rounding
      Plan same = plan;
      same.repair.always = found.chosen;
      same.repair.attention = same.repair.divergence = 0;
      same.repair.budgets.assign(plan.repair.budgets.size(), 0);
      same.repair.factors.clear();
      const Request as_chosen = computed(same);
      CHECK(difference(found, on_cpu->run({&as_chosen, 1})[0]) < 2 * tolerance(config, options));
    }
}

}  // namespace families_test
}  // namespace
}  // namespace troupe::kernels::cuda
