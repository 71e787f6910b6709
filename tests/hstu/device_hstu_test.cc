// Tests HSTU on the emulated device: golden outputs, and random shapes against the float64 reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/cuda/engine/hstu.h"
#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"
#include "tests/hstu/hstu_golden.h"

namespace troupe::hstu {
namespace {
namespace device_hstu_test {

namespace cuda = kernels::cuda;
using cuda::CudaRankerOptions;
using kernels::HstuConfig;
using kernels::HstuModel;
using kernels::KvFormat;
using kernels::Plan;
using kernels::Request;
using kernels::SegmentKv;
using kernels::Source;

using Readouts = std::vector<std::vector<float>>;

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

double golden_gap(const Readouts& readouts, const GoldenCase& one) {
  const std::size_t first = one.next_items.empty() ? 0 : 1;
  double most = first == 1 ? gap(readouts[0], one.next_items) : 0;
  for (std::size_t c = 0; c < one.tasks.size(); ++c)
    most = std::max(most, gap(readouts[first + c], {one.tasks[c]}));
  return std::max(most, gap(readouts.back(), one.state_first8));
}

// Returns the error relative to the largest number of its kind: readouts of one size are of one kind.
double reference_gap(const Readouts& readouts, const HstuModel& model, const Plan& plan) {
  const Reference wanted = compute(model, plan);
  double worst = 0;
  for (std::size_t r = 0; r < readouts.size(); ++r) {
    double largest = 1;
    for (const Row& row : wanted.readouts)
      if (row.size() == wanted.readouts[r].size())
        for (const double x : row) largest = std::max(largest, std::abs(x));
    worst = std::max(worst, gap(readouts[r], wanted.readouts[r]) / largest);
  }
  return worst;
}

CudaRankerOptions small_options(KvFormat kv) {
  CudaRankerOptions options{.page_tokens = 4,
                            .kv = kv,
                            .rows_max = 600,
                            .keys_max = 8000,
                            .logits_max = 4000,
                            .plan_bytes_max = 1 << 20};
  if (kv == KvFormat::f16) options.weights = cuda::HalfFormat::f16;
  return options;
}

Readouts run_one(kernels::Executor& executor, const Plan& plan) {
  REQUIRE(validate(plan, executor.limits()) == "");
  const Request request{&plan, std::vector<SegmentKv>(plan.segments.size())};
  const kernels::Reply reply = executor.run({&request, 1})[0];
  REQUIRE(reply.too_large == "");
  return reply.readouts;
}

HstuConfig small_config(std::mt19937& random, bool production) {
  const auto one_of = [&](std::initializer_list<std::uint32_t> some) {
    return some.begin()[random() % some.size()];
  };
  HstuConfig c;
  if (production) c.kind = kernels::HstuLayerKind::stu;
  c.layers = 1 + random() % 3;
  c.hidden = one_of({8, 24, 64});
  c.heads = one_of({1, 2});
  c.head_dim = one_of({32, 64, 128});
  c.vocabulary = 200;
  c.positions = 120;
  c.normaliser = 120;
  c.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  c.temperature = 0.05;
  c.head_hidden = 16, c.tasks = 2;
  if (production)
    c.context_tokens = random() % 4;
  else
    c.time_buckets = 128, c.bucket_divisor = 0.301;
  return c;
}

HstuRequest random_request(std::mt19937& random, std::size_t events, std::size_t candidates, bool ascending) {
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

// Tolerance of outputs, relative to the largest: four times the errors that were measured.
double tolerance(KvFormat kv) { return kv == KvFormat::f32 ? 1e-5 : kv == KvFormat::f16 ? 1e-2 : 6e-2; }

std::optional<std::filesystem::path> golden_folder() {
  auto folder = shared_model("tiny-hstu-movielens");
  if (!folder) MESSAGE("skipped: no ../shared/models/tiny-hstu-movielens");
  return folder;
}

TEST_CASE("device hstu: the trained model has the golden outputs") {
  const auto folder = golden_folder();
  if (!cuda::have_device() || !folder) return;
  const HstuModel model = kernels::read_hstu(*folder);
  for (const KvFormat kv : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    const auto executor = cuda::make_cuda_hstu(model, small_options(kv));
    double most = 0;
    std::size_t number = 0;
    for (const GoldenCase& one : golden_cases(*folder / "golden.json"))
      if (kv == KvFormat::f32 || number++ % 5 == 0)
        most = std::max(most, golden_gap(run_one(*executor, hstu_plan(model.config, one.request)), one));
    MESSAGE("pages in ", format_name(kv), ": largest difference ", most, " of numbers up to 22");
    CHECK(most < (kv == KvFormat::f32 ? 1e-4 : 22 * tolerance(kv)));
  }
}

TEST_CASE("device hstu: random plans match the reference, alone and in batches") {
  if (!cuda::have_device()) return;
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 9; ++round) {
    CAPTURE(round);
    const HstuConfig config = small_config(random, round % 3 == 2);
    const HstuModel model = generated_hstu(config);
    CudaRankerOptions options =
        small_options(std::array{KvFormat::f32, KvFormat::f16, KvFormat::bf16}[random() % 3]);
    if (options.kv == KvFormat::f32 && config.head_dim == 128 && cuda::device_properties(0).capability == 86)
      options = small_options(KvFormat::f16);  // f32 tiles would exceed the shared memory
    options.page_tokens = 1 + random() % 9;
    const auto executor = cuda::make_cuda_hstu(model, options);
    std::vector<Plan> plans;
    for (const std::size_t events : {std::size_t{1}, std::size_t{2}, std::size_t{7 + random() % 100}})
      plans.push_back(
          hstu_plan(config, random_request(random, std::max<std::size_t>(events, config.context_tokens),
                                           1 + random() % 40, round % 4 != 1)));
    std::vector<Request> batch;
    for (const Plan& plan : plans) batch.push_back({&plan, std::vector<SegmentKv>(plan.segments.size())});
    const auto replies = executor->run(batch);
    for (std::size_t p = 0; p < plans.size(); ++p) {
      CHECK(reference_gap(replies[p].readouts, model, plans[p]) < tolerance(options.kv));
      CHECK(reference_gap(run_one(*executor, plans[p]), model, plans[p]) < tolerance(options.kv));
    }
  }
}

TEST_CASE("device hstu: cached blocks and new events equal recomputation, bit by bit") {
  if (!cuda::have_device()) return;
  std::mt19937 random(7);
  HstuConfig config = small_config(random, false);
  config.head_dim = 64;
  const HstuModel model = generated_hstu(config);
  for (const KvFormat kv : {KvFormat::f32, KvFormat::bf16}) {
    const auto executor = cuda::make_cuda_hstu(model, small_options(kv));
    for (int round = 0; round < 3; ++round) {
      const HstuRequest request = random_request(random, 20 + random() % 80, 5, true);
      const Plan whole = hstu_plan(model.config, request);
      const Readouts wanted = run_one(*executor, whole);
      Request asked{&whole, std::vector<SegmentKv>(whole.segments.size())};
      cuda::DevicePages pages{executor->layout(), {}};
      asked.kv[0].pages = pages.take(whole.segments[0].tokens.size());
      CHECK(executor->run({&asked, 1})[0].readouts == wanted);  // writes them to the pages
      asked.kv[0].source = Source::cached;
      const Readouts reused = executor->run({&asked, 1})[0].readouts;
      for (std::size_t r = 0; r < wanted.size(); ++r)
        CHECK(gap(reused[r], std::vector<double>(wanted[r].begin(), wanted[r].end())) < 22 * tolerance(kv));
      HstuRequest later = request;
      later.now += 400 * 86400;
      const Plan another = hstu_plan(model.config, later);
      asked.plan = &another;
      CHECK(reference_gap(executor->run({&asked, 1})[0].readouts, model, another) < tolerance(kv));
    }
  }
}

TEST_CASE(
    "device hstu: a NaN spoils only the rows that see it, and a model without kernels is refused by name") {
  if (!cuda::have_device()) return;
  std::mt19937 random(5);
  HstuConfig config = small_config(random, false);
  HstuModel model = generated_hstu(config);
  std::fill_n(model.weights.items.values.begin() + 150 * config.hidden, config.hidden, INFINITY);
  const auto executor = cuda::make_cuda_hstu(model, small_options(KvFormat::f16));
  HstuRequest request{{1, 2, 3}, {10, 20, 30}, 40, {150, 4}};
  const Readouts found = run_one(*executor, hstu_plan(config, request));
  CHECK(!std::isfinite(found[1][0]));
  CHECK(std::isfinite(found[2][0]));

  CHECK(cuda::cuda_hstu_fault(config, small_options(KvFormat::f16)) == "");
  config.hidden = 20;
  CHECK(cuda::cuda_hstu_fault(config, {}) == "hidden_size 20; on a GPU expected a multiple of 8");
  config.hidden = 24, config.head_dim = 48;
  CHECK(cuda::cuda_hstu_fault(config, {}).starts_with("head_dim 48"));
  config.head_dim = 32, config.window = 5;
  CHECK(cuda::cuda_hstu_fault(config, {}).starts_with("max_attention_length 5"));
  const auto fault_with = [&](const auto& change) {
    HstuConfig other;
    change(other);
    return cuda::cuda_hstu_fault(other, {});
  };
  CHECK(fault_with([](HstuConfig& c) { c.kind = kernels::HstuLayerKind::nvidia; }) ==
        "layer \"nvidia\"; on a GPU expected \"stu\", or none");
  CHECK(fault_with([](HstuConfig& c) { c.head_dim = 8, c.value_dim = 16; }) ==
        "linear_dim 16; on a GPU expected attention_dim, 8");
  CHECK(fault_with([](HstuConfig& c) { c.softmax = true; }).starts_with("attention_activation"));
  CHECK(fault_with([](HstuConfig& c) { c.projections_silu = false; }).starts_with("linear_activation"));
  CHECK(fault_with([](HstuConfig& c) { c.concat = true; }).starts_with("concat_ua"));
  CHECK(fault_with([](HstuConfig& c) { c.actions = 3; }).starts_with("action_embedding"));
  CHECK(fault_with([](HstuConfig& c) { c.item_l2 = false; }).starts_with("item_norm"));
  CHECK(fault_with([](HstuConfig& c) {
          c.output_norm = kernels::HstuOutputNorm::layer_norm;
        }).starts_with("output_norm"));
}

}  // namespace device_hstu_test
}  // namespace
}  // namespace troupe::hstu
