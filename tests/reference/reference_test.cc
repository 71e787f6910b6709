// Tests the float64 reference against logits that other programs computed, and the CPU decoder against
// the same.
#include "tests/reference/reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/decoder/decoder.h"
#include "tests/reference/golden.h"

namespace troupe::reference {
namespace {

using kernels::DecoderModel;
using kernels::Plan;

constexpr double kGoldenTolerance = 1e-4;  // the programs that made the files agree within 1e-5

using Scorer = std::function<std::vector<double>(const Plan&)>;  // logits of the first readout

// Runs every `stride`-th case. `relative`: allowed difference as a share of the largest golden logit.
void check_golden(const std::vector<GoldenCase>& cases, std::size_t stride, const Scorer& score,
                  double relative = 0) {
  REQUIRE(!cases.empty());
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    const GoldenCase& golden = cases[i];
    CAPTURE(golden.name);
    const std::vector<double> logits = score(golden.plan);
    REQUIRE(logits.size() >= golden.logits.size());
    double worst = 0, largest = 1;
    for (const double logit : golden.logits) largest = std::max(largest, std::abs(logit));
    const double allowed = std::max(kGoldenTolerance, relative * largest);
    for (std::size_t k = 0; k < golden.logits.size(); ++k)
      worst = std::max(worst, std::isfinite(logits[k]) ? std::abs(logits[k] - golden.logits[k]) : INFINITY);
    CHECK(worst < allowed);
    if (golden.log_sum == 0) continue;
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    CHECK(std::abs(std::log(sum) - golden.log_sum) < allowed);
  }
}

std::vector<GoldenCase> cases_of(const std::string& name, const std::filesystem::path& golden,
                                 const DecoderModel& model) {
  return name.starts_with("tiny-onerec") ? generator_cases(golden, model.config.vocabulary)
                                         : ranker_cases(golden);
}

Scorer by_reference(const DecoderModel& model) {
  return [&](const Plan& plan) { return compute(model, plan).readouts[0]; };
}

Scorer by_decoder(kernels::Executor& decoder) {
  return [&](const Plan& plan) {
    const kernels::Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
    const std::vector<float> logits = decoder.run({&request, 1})[0].readouts[0];
    return std::vector<double>(logits.begin(), logits.end());
  };
}

constexpr const char* kModels[] = {"tiny-onerec", "tiny-onerec-beauty", "tiny-ranker-games", "demo"};

TEST_CASE("reference: the golden logits of every trained model are computed") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    const auto [folder, golden] = golden_model(name);
    if (folder.empty()) {
      MESSAGE("skipped, no golden file beside the checkout: ", name);
      continue;
    }
    const DecoderModel model = kernels::read_decoder(folder);
    // The ranker's 80 plans of 450 tokens take a minute; every seventh covers each table (4 per request).
    check_golden(cases_of(name, golden, model), name == "tiny-ranker-games" ? 7 : 1, by_reference(model));
  }
}

TEST_CASE("CPU decoder: the golden logits of every trained model are computed") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    const auto [folder, golden] = golden_model(name);
    if (folder.empty()) {
      MESSAGE("skipped, no golden file beside the checkout: ", name);
      continue;
    }
    const DecoderModel model = kernels::read_decoder(folder);
    const auto decoder = kernels::make_cpu_decoder(model, {.page_tokens = 16});
    check_golden(cases_of(name, golden, model), 1, by_decoder(*decoder));
  }
}

// A number that is rounded to bf16 is off by at most 2^-8 of itself, by 2^-8/sqrt(3) in standard
// deviations. A layer's four products round weights and activations, its attention queries and weights,
// and keys and values are stored rounded (three units, as in decoder_plans_test.cc). A layer at most
// doubles the error that it inherits.
double bf16_rounding(const DecoderModel& model) {
  return 2 * 0x1p-8 * (4 * std::sqrt(2.0 / 3) + 2 * std::sqrt(1.0 / 3) + 3) * model.config.layers;
}

TEST_CASE("CPU decoder: with weights, keys and values in bf16 the golden logits are within its rounding") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    const auto [folder, golden] = golden_model(name);
    if (folder.empty()) continue;
    const DecoderModel model = kernels::read_decoder(folder);
    const auto decoder = kernels::make_cpu_decoder(
        model, {.page_tokens = 16, .kv = kernels::KvFormat::bf16, .weights = kernels::WeightFormat::bf16});
    check_golden(cases_of(name, golden, model), 1, by_decoder(*decoder), bf16_rounding(model));
  }
}

TEST_CASE("visibility: a token sees its segment's visible segments, and its own up to itself") {
  Plan plan;
  plan.segments = {{kernels::SegmentKind::system, {1, 2}, 0, {}},
                   {kernels::SegmentKind::item, {3}, 2, {}},
                   {kernels::SegmentKind::user, {4, 5}, 2, {0}}};
  const std::vector<std::vector<bool>> expected{
      {1, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {0, 0, 1, 0, 0}, {1, 1, 0, 1, 0}, {1, 1, 0, 1, 1}};
  CHECK(visibility(plan) == expected);
}

}  // namespace
}  // namespace troupe::reference
