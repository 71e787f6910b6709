#include "kernels/climber/climber.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "kernels/climber/climber_reference.h"
#include "kernels/climber/cpu_climber.h"
#include "kernels/operations/versions.h"
#include "kernels/testing/pass_times_test.h"
#include "kernels/testing/poisoned_pages_test.h"
#include "kernels/testing/small_climber_test.h"
#include "kernels/testing/unfused_attend_test.h"

namespace troupe::kernels {
namespace {
namespace climber_test {

// Error of float32 against float64 over a few layers of activations near 1.
constexpr double tolerance = 2e-5;

// Error of weights and activations in bf16. Each is off by at most 2^-8 of itself, uniformly: by
// 2^-8/sqrt(3) in standard deviations, and sqrt(2) times that for a product of both. A sum of such
// products is a random walk like the sum itself, so its error is the same share of its size, which is
// near 1 here. A layer has four products, the end has five (fusion, gate, expert and head), and a
// layer may double the error that it inherits, as in tests/reference/decoder_plans_test.cc. `answer`
// has sizes above 1 as well.
double bf16_tolerance(const ClimberConfig& config, const ClimberAnswer& answer) {
  double size = 1;
  for (const auto& logits : answer.logits)
    for (const double logit : logits) size = std::max(size, std::abs(logit));
  return 2 * 0x1p-8 * std::sqrt(2.0 / 3.0) * (4 * config.layers + 5) * size;
}

std::unique_ptr<Executor> small_climber(const DecoderOptions& options = {}) {
  return make_cpu_climber(random_climber(small_climber_config(), 5), options);
}

// Readouts are [candidate][task].
double largest_difference(const Reply& reply, const ClimberAnswer& answer, std::size_t first_candidate = 0) {
  const std::size_t tasks = answer.logits.size();
  double worst = 0;
  for (std::size_t i = 0; i < reply.readouts.size(); ++i) {
    const double got = reply.readouts[i].at(0),
                 want = answer.logits[i % tasks].at(first_candidate + i / tasks);
    worst = std::isfinite(got) ? std::max(worst, std::abs(got - want)) : INFINITY;
  }
  return worst;
}

Request computed(const Plan& plan) { return {&plan, std::vector<SegmentKv>(plan.segments.size())}; }

// A table that counts the rows fetched from it.
struct CountingTable final : EmbeddingTable {
  Matrix items;
  std::vector<std::size_t> asked = {};
  explicit CountingTable(Matrix m) : items(std::move(m)) {}
  std::uint32_t rows() const override { return items.rows; }
  std::uint32_t columns() const override { return items.columns; }
  void fetch(std::span<const Token> rows, float* out) override {
    asked.push_back(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(items.values.begin() + rows[i] * static_cast<std::ptrdiff_t>(items.columns), items.columns,
                  out + i * items.columns);
  }
};

TEST_CASE("climber: an item embedding that is apart is fetched once per pass, and answers are bit-equal") {
  ClimberModel model = random_climber(small_climber_config(), 5);
  std::mt19937 random(7);
  const ClimberRequest request = random_climber_request(model.config, random, 12, 9);
  const Plan plan = climber_plan(model.config, request);
  const Request asked = computed(plan);
  for (const std::uint32_t cores : {1u, 2u}) {
    const Reply whole = make_cpu_climber(model, {.cores = cores})->run({&asked, 1})[0];
    const auto table = std::make_shared<CountingTable>(model.weights.items);
    ClimberModel elsewhere = model;
    elsewhere.weights.items.values.clear();
    elsewhere.items = table;
    const auto executor = make_cpu_climber(std::move(elsewhere), {.cores = cores});
    CHECK(executor->run({&asked, 1})[0].readouts == whole.readouts);
    std::size_t rows = 2 * 9;  // candidates are in both towers
    for (const Segment& segment : plan.segments)
      if (segment.features[1] != climber_candidate) rows += segment.tokens.size();
    CHECK(table->asked == std::vector{rows});
    const Reply shared = executor->share(1)->run({&asked, 1})[0];
    CHECK(shared.readouts == whole.readouts);
  }
}

TEST_CASE("climber: a core that is busy when a pass begins may join it later") {
  const ClimberModel model = random_climber(small_climber_config(), 5);
  std::mt19937 random(7);
  const ClimberRequest request = random_climber_request(model.config, random, 12, 3'000);
  const ClimberAnswer answer = compute_climber(model, request);
  const Plan plan = climber_plan(model.config, request);
  const ClimberKernels kernels{&elementwise(), &gates(), &attend, &product_version()};
  for (int round = 0; round < 40; ++round) {
    const auto team = std::make_shared<Team>(2, CpuSet(), 0.0);
    const auto executor = make_cpu_climber(model, {}, kernels, team);
    std::optional<Team::Pass> other(*team);  // ends at some time during the pass below
    std::thread ending([&] {
      for (std::atomic<int> spins = 0; spins < round * 10'000; ++spins) continue;
      other.reset();
    });
    const Request asked = computed(plan);
    CHECK(largest_difference(executor->run({&asked, 1})[0], answer) < tolerance);
    ending.join();
  }
}

TEST_CASE("climber: random models agree with the reference on every instruction set and several cores") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 6; ++round) {
    ClimberConfig c = small_climber_config();
    c.heads = 1 + random() % 4;
    c.hidden = c.heads * (1 + random() % 20);
    c.layers = 1 + random() % 3;
    c.intermediate = 1 + random() % 60;
    c.experts = 1 + random() % 4;
    c.towers.resize(1 + random() % 2);
    c.towers.push_back({ClimberStrategy::recent, static_cast<std::uint32_t>(1 + random() % 20)});
    c.scenarios = 1 + random() % 3;
    const ClimberModel model = random_climber(c, seed + round);
    const ClimberRequest request = random_climber_request(c, random, random() % 40, 1 + random() % 15);
    const ClimberAnswer answer = compute_climber(model, request);
    const Plan plan = climber_plan(c, request);
    REQUIRE(validate(plan, plan_limits(c)) + validate(plan, c) == "");
    for (const ProductVersion& product : product_versions()) {
      if (!product.usable) continue;
      const std::string name(product.name);
      CAPTURE(name);
      const auto named = [&](auto versions) { return &version_named(versions, name); };
      const ClimberKernels kernels{named(elementwise_versions()), named(gate_versions()),
                                   named(attend_versions())->run, &product};
      for (const WeightFormat weights : {WeightFormat::f32, WeightFormat::bf16}) {
        const auto executor =
            make_cpu_climber(model, {.weights = weights}, kernels, std::make_shared<Team>(3, CpuSet(), 0.0));
        const Request one = computed(plan);
        CHECK(largest_difference(executor->run({&one, 1})[0], answer) <
              (weights == WeightFormat::f32 ? tolerance : bf16_tolerance(c, answer)));
      }
    }
  }
}

TEST_CASE("climber: requests of one batch are independent, and a sub-sequence may be empty") {
  const ClimberConfig c = small_climber_config();
  const ClimberModel model = random_climber(c, 5);
  std::mt19937 random(3);
  std::vector<ClimberRequest> asked;
  for (const std::size_t events : {0, 1, 5, 60})
    asked.push_back(random_climber_request(c, random, events, 1 + events));
  asked[1].actions[0] = 2;  // no event is liked
  std::vector<Plan> plans;
  std::vector<Request> requests;
  for (const ClimberRequest& request : asked) plans.push_back(climber_plan(c, request));
  for (const Plan& plan : plans) requests.push_back(computed(plan));
  CHECK(plans[0].segments.size() == 1);
  CHECK(plans[1].segments.size() == 1 + 2);
  const auto replies = small_climber({.cores = 2})->run(requests);
  for (std::size_t i = 0; i < asked.size(); ++i)
    CHECK(largest_difference(replies[i], compute_climber(model, asked[i])) < tolerance);
}

TEST_CASE("climber: candidates have the same scores, up to rounding, however they are split") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(4);
  const ClimberRequest request = random_climber_request(c, random, 30, 37);
  const auto executor = small_climber();
  const Plan whole = climber_plan(c, request);
  const Request all = computed(whole);
  const auto together = executor->run({&all, 1})[0].readouts;
  for (const std::size_t size : {1, 5, 16}) {
    std::vector<std::vector<float>> split;
    for (std::size_t first = 0; first < request.candidates.size(); first += size) {
      ClimberRequest part = request;
      part.candidates = {
          request.candidates.begin() + std::ptrdiff_t(first),
          request.candidates.begin() + std::ptrdiff_t(std::min(first + size, request.candidates.size()))};
      const Plan plan = climber_plan(c, part);
      const Request some = computed(plan);
      const std::vector<Reply> replies = executor->run({&some, 1});
      split.insert(split.end(), replies[0].readouts.begin(), replies[0].readouts.end());
    }
    REQUIRE(split.size() == together.size());
    for (std::size_t i = 0; i < split.size(); ++i) CHECK(std::abs(split[i][0] - together[i][0]) < 2e-6);
  }
}

TEST_CASE(
    "climber: a cached history gives the same scores as a computed one, in every format and page size") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(6);
  const ClimberRequest request = random_climber_request(c, random, 30, 9);
  const Plan plan = climber_plan(c, request);
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16})
    for (const std::uint32_t page_tokens : {1u, 4u, 16u}) {
      const auto executor = small_climber({.page_tokens = page_tokens, .kv = format});
      PoisonedPages pages{executor->layout(), {}};
      Request one = computed(plan);
      for (std::size_t s = 0; s < plan.segments.size(); ++s)
        one.kv[s].pages = pages.take(plan.segments[s].tokens.size());
      const auto made = executor->run({&one, 1})[0].readouts;
      for (std::size_t k = 0; k < 2; ++k) one.kv[k].source = Source::cached;
      const auto reused = executor->share(1)->run({&one, 1})[0].readouts;
      for (std::size_t i = 0; i < made.size(); ++i)
        CHECK(std::abs(double(made[i][0]) - reused[i][0]) < tolerance);
      pages.pages[0][0].bytes[2] ^= std::byte{0x40};
      CHECK(executor->run({&one, 1})[0].readouts != reused);
    }
}

TEST_CASE("climber: a history in two segments, the later of which sees the earlier, equals one history") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(8);
  const ClimberRequest request = random_climber_request(c, random, 30, 4);
  Plan plan = climber_plan(c, request);
  const Segment whole = plan.segments[0];  // of 12 events
  Segment first = whole, second = whole;
  first.tokens = whole.tokens.part(0, 5);
  first.features.resize(5 * climber_features);
  second.tokens = whole.tokens.part(5, 7);
  second.features.erase(second.features.begin(), second.features.begin() + 5 * climber_features);
  second.start = 5;
  second.sees = {0};
  plan.segments.erase(plan.segments.begin());
  plan.segments.insert(plan.segments.begin(), {first, second});
  for (std::size_t s = 3; s < plan.segments.size(); ++s)
    plan.segments[s].sees = VisibleSegments::all_before(3);
  for (Readout& readout : plan.readouts) ++readout.segment;
  REQUIRE(validate(plan, plan_limits(c)) + validate(plan, c) == "");
  const Request one = computed(plan);
  const ClimberAnswer answer = compute_climber(random_climber(c, 5), request);
  CHECK(largest_difference(small_climber()->run({&one, 1})[0], answer) < tolerance);
}

TEST_CASE("climber: scenarios differ in scores and in the blocks that they make") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(9);
  ClimberRequest request = random_climber_request(c, random, 10, 3);
  request.scenario = 0;
  const Plan weekday = climber_plan(c, request);
  request.scenario = 1;
  const Plan weekend = climber_plan(c, request);
  CHECK(weekday.segments[0].features != weekend.segments[0].features);
  const Request a = computed(weekday), b = computed(weekend);
  const auto executor = small_climber();
  CHECK(executor->run({&a, 1})[0].readouts != executor->run({&b, 1})[0].readouts);
}

TEST_CASE("climber: a batch beyond the memory runs in several passes with the same answers") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(10);
  const ClimberRequest request = random_climber_request(c, random, 30, 60);
  const Plan plan = climber_plan(c, request);
  const Request one = computed(plan);
  const std::vector<Request> batch(3, one);
  const auto bounded = small_climber({.memory_bytes = 1, .batch_tokens = 25})->run(batch);
  const ClimberAnswer answer = compute_climber(random_climber(c, 5), request);
  for (const Reply& reply : bounded) {
    CHECK(reply.too_large == "");
    CHECK(largest_difference(reply, answer) < tolerance);
  }
}

TEST_CASE("climber: each part of a pass takes time, and the parts together no more than the pass") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(14);
  const Plan plan = climber_plan(c, random_climber_request(c, random, 30, 20));
  PassParts parts = all_parts();
  parts.pop_back();  // without the search
  check_pass_times(*small_climber(), computed(plan), parts);
}

TEST_CASE("climber: separate operations give the answers of the fused ones, to rounding") {
  const ClimberModel model = random_climber(small_climber_config(), 5);
  std::mt19937 random(17);
  const Plan plan = climber_plan(model.config, random_climber_request(model.config, random, 30, 9));
  const Request asked = computed(plan);
  const Reply fused = make_cpu_climber(model, {})->run({&asked, 1})[0];
  for (const std::uint32_t cores : {1u, 2u}) {
    const Reply apart =
        make_cpu_climber(model, {.cores = cores},
                         {&elementwise(), &gates(), &unfused_attend, &product_version(), false},
                         std::make_shared<Team>(cores))
            ->run({&asked, 1})[0];
    REQUIRE(apart.readouts.size() == fused.readouts.size());
    for (std::size_t i = 0; i < fused.readouts.size(); ++i)
      CHECK(std::abs(apart.readouts[i].at(0) - fused.readouts[i].at(0)) < tolerance);
  }
}

TEST_CASE("climber: a plan that Climber does not accept is refused by name") {
  const ClimberConfig c = small_climber_config();
  std::mt19937 random(11);
  const Plan sound = climber_plan(c, random_climber_request(c, random, 30, 2));
  const auto fault_of = [&](auto&& change) {
    Plan plan = sound;
    change(plan);
    CHECK(validate(plan, plan_limits(c)) == "");
    const std::string fault = validate(plan, c);
    CHECK(small_climber()->fault(plan) == fault);
    return fault;
  };
  CHECK(fault_of([](Plan&) {}) == "");
  CHECK(fault_of([](Plan& p) { p.segments[0].features[3] = 6; }) ==
        "segments[0].features of token 1: action is 6; expected from 0 to below 6");
  CHECK(fault_of([](Plan& p) { p.segments[0].features[1] = 2; }) ==
        "segments[0].features of token 0: tower is 2; expected from -1 to below 2");
  CHECK(fault_of([](Plan& p) { p.segments[0].features[2] = -1; }) ==
        "segments[0].features of token 0: scenario is -1; expected from 0 to below 2");
  CHECK(fault_of([](Plan& p) { p.segments[0].features[4] = 1; }) ==
        "segments[0].features of token 1: another tower or scenario than the first token's; expected one of "
        "each in a "
        "segment");
  CHECK(fault_of([](Plan& p) { p.segments[2].features[0] = 3; }) ==
        "segments[2] is a candidate; expected one token with action 0");
  CHECK(fault_of([](Plan& p) {
          p.segments[2].tokens = {1, 2};
          p.segments[2].features = {0, climber_candidate, p.segments[0].features[2],
                                    0, climber_candidate, p.segments[0].features[2]};
        }) == "segments[2] is a candidate; expected one token with action 0");
  CHECK(fault_of([](Plan& p) { p.segments[3].sees.add(2); }) ==
        "segments[3].sees has 2; expected histories of the same scenario, and those of a history of its own "
        "tower");
  CHECK(fault_of([](Plan& p) { p.segments[1].sees = {0}; }) ==
        "segments[1].sees has 0; expected histories of the same scenario, and those of a history of its own "
        "tower");
  CHECK(fault_of([](Plan& p) { p.segments[1].start = 1; }) ==
        "segments[1] needs 8 events of tower 1; expected at most 7");
  CHECK(fault_of([](Plan& p) { p.readouts[0].what = Readout::What::rows; }) ==
        "readouts[0] reads something else; expected a head of a candidate");
}

}  // namespace climber_test
}  // namespace
}  // namespace troupe::kernels
