// Tests Climber on the emulated device: the trained model's golden logits, and random shapes against the
// float64 definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/climber/climber_reference.h"
#include "kernels/cuda/engine/climber.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"
#include "kernels/testing/small_climber_test.h"
#include "tests/reference/golden.h"

namespace troupe::reference {
namespace {
namespace device_climber_test {

namespace cuda = kernels::cuda;
using cuda::CudaRankerOptions;
using kernels::ClimberAnswer;
using kernels::ClimberConfig;
using kernels::ClimberModel;
using kernels::ClimberRequest;
using kernels::KvFormat;
using kernels::Plan;
using kernels::Reply;
using kernels::Request;
using kernels::SegmentKv;
using kernels::Source;
using kernels::Token;

CudaRankerOptions small_options(KvFormat kv) {
  CudaRankerOptions options{.page_tokens = 4,
                            .kv = kv,
                            .rows_max = 1024,
                            .keys_max = 8000,
                            .logits_max = 1000,
                            .plan_bytes_max = 1 << 20};
  if (kv == KvFormat::f16) options.weights = cuda::HalfFormat::f16;
  return options;
}

// Tolerance of logits near 1: four times the errors that were measured.
double tolerance(KvFormat kv) { return kv == KvFormat::f32 ? 2e-5 : kv == KvFormat::f16 ? 1e-2 : 6e-2; }

Request computed(const Plan& plan) { return {&plan, std::vector<SegmentKv>(plan.segments.size())}; }

// Readouts are [candidate][task].
double largest_difference(const Reply& reply, const std::vector<std::vector<double>>& logits) {
  if (!reply.too_large.empty()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < reply.readouts.size(); ++i) {
    const double off = std::abs(reply.readouts[i].at(0) - logits[i % logits.size()].at(i / logits.size()));
    worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
  }
  return worst;
}

TEST_CASE("device climber: the trained model has the golden logits") {
  const GoldenModel golden = golden_model("tiny-climber");
  if (!cuda::have_device()) return;
  if (golden.folder.empty()) {
    MESSAGE("skipped: the data is not beside the checkout");
    return;
  }
  const ClimberConfig c = kernels::read_climber_config(golden.folder);
  std::ifstream in(golden.golden);
  const nlohmann::json document = nlohmann::json::parse(in);
  for (const KvFormat kv : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    const auto executor = cuda::make_cuda_climber(kernels::read_climber(golden.folder), small_options(kv));
    double worst = 0;
    for (std::size_t i = 0; i < document.at("cases").size(); i += kv == KvFormat::f32 ? 1 : 5) {
      const nlohmann::json& one = document.at("cases")[i];
      const Plan plan =
          climber_plan(c, {one.at("item_ids").get<std::vector<Token>>(),
                           one.at("actions").get<std::vector<std::int64_t>>(), one.at("scenario"),
                           one.at("candidate_ids").get<std::vector<Token>>()});
      std::vector<std::vector<double>> wanted;
      for (const std::string& task : c.tasks)
        wanted.push_back(one.at("logits").at(task).get<std::vector<double>>());
      const Request request = computed(plan);
      worst = std::max(worst, largest_difference(executor->run({&request, 1})[0], wanted));
    }
    MESSAGE("pages in ", format_name(kv), ": largest difference ", worst);
    CHECK(worst < (kv == KvFormat::f32 ? 1e-4 : 10 * tolerance(kv)));
  }
}

ClimberConfig random_config(std::mt19937& random) {
  ClimberConfig c = kernels::small_climber_config();
  c.heads = 1 + random() % 2;
  c.hidden = c.heads * (random() % 2 == 0 ? 32 : 64);
  c.layers = 1 + random() % 3;
  c.intermediate = 8 * (1 + random() % 9);
  c.experts = 1 + random() % 4, c.expert_size = 8 * (1 + random() % 3), c.head_size = 8 * (1 + random() % 2);
  c.towers.resize(1 + random() % 2);
  c.towers.push_back({kernels::ClimberStrategy::recent, static_cast<std::uint32_t>(1 + random() % 20)});
  c.scenarios = 1 + random() % 3;
  return c;
}

TEST_CASE("device climber: random models match the definition, in batches, kept and then cached") {
  if (!cuda::have_device()) return;
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 9; ++round) {
    CAPTURE(round);
    const ClimberConfig c = random_config(random);
    const ClimberModel model = kernels::random_climber(c, seed + static_cast<unsigned>(round));
    CudaRankerOptions options =
        small_options(std::array{KvFormat::f32, KvFormat::f16, KvFormat::bf16}[round % 3]);
    options.page_tokens = 1 + random() % 9;
    const auto executor = cuda::make_cuda_climber(model, options);
    cuda::DevicePages pages{executor->layout(), {}};
    std::vector<Plan> plans;
    std::vector<ClimberAnswer> answers;
    for (const std::size_t events : {std::size_t{0}, std::size_t{1}, std::size_t{random() % 40}}) {
      const ClimberRequest request = kernels::random_climber_request(c, random, events, 1 + random() % 15);
      plans.push_back(climber_plan(c, request));
      answers.push_back(compute_climber(model, request));
    }
    std::vector<Request> batch;
    for (const Plan& plan : plans) batch.push_back(computed(plan));
    const auto check = [&] {
      const std::vector<Reply> replies = executor->run(batch);
      for (std::size_t i = 0; i < plans.size(); ++i)
        CHECK(largest_difference(replies[i], answers[i].logits) < tolerance(options.kv));
    };
    check();
    for (Request& request : batch)
      for (std::size_t s = 0; s < request.kv.size(); ++s)
        request.kv[s].pages = pages.take(request.plan->segments[s].tokens.size());
    check();
    for (Request& request : batch)
      for (std::size_t s = 0; s < request.kv.size(); ++s)
        if (request.plan->segments[s].features[1] != kernels::climber_candidate)
          request.kv[s].source = Source::cached;
    check();
  }
}

TEST_CASE("device climber: a pass beyond its rows is split, and a model without kernels is refused by name") {
  if (!cuda::have_device()) return;
  std::mt19937 random(3);
  const ClimberConfig c = random_config(random);
  const ClimberModel model = kernels::random_climber(c, 5);
  CudaRankerOptions options = small_options(KvFormat::f32);
  options.rows_max = 160;
  const auto executor = cuda::make_cuda_climber(model, options);
  const ClimberRequest request = kernels::random_climber_request(c, random, 10, 200);
  const Plan plan = climber_plan(c, request);
  const Request asked = computed(plan);
  CHECK(largest_difference(executor->run({&asked, 1})[0], compute_climber(model, request).logits) <
        tolerance(options.kv));

  CHECK(cuda::cuda_climber_fault(c, options) == "");
  ClimberConfig odd = c;
  odd.expert_size = 10;
  CHECK(cuda::cuda_climber_fault(odd, options) == "expert_size 10; on a GPU expected a multiple of 8");
  odd = c;
  odd.hidden = 24 * odd.heads;
  CHECK(cuda::cuda_climber_fault(odd, options).starts_with("head_dim 24"));
}

}  // namespace device_climber_test
}  // namespace
}  // namespace troupe::reference
