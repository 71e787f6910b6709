// Tests plans with a repair on the emulated device against the float64 reference and the CPU's executor:
// random plans and batches, blocks computed or read from pages; the cases of no repair and of a full one;
// a trained model's golden scores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "kernels/cuda/testing/device_test.h"
#include "kernels/cuda/testing/small_decoder_test.h"
#include "tests/reference/golden.h"
#include "tests/reference/random_plans.h"
#include "tests/reference/reference.h"

namespace troupe::reference {
namespace {
namespace device_repair_test {

namespace cuda = kernels::cuda;
using cuda::CudaDecoderOptions;
using cuda::HalfFormat;
using kernels::DecoderConfig;
using kernels::DecoderModel;
using kernels::KvFormat;
using kernels::Plan;
using kernels::Reply;
using kernels::Request;
using kernels::SegmentKind;
using kernels::Source;

double difference(const Reply& found, const std::vector<std::vector<double>>& expected) {
  double worst = 0, magnitude = 1;
  if (found.readouts.size() != expected.size()) return INFINITY;
  for (std::size_t r = 0; r < expected.size(); ++r)
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      const double off = std::abs(found.readouts[r].at(i) - expected[r][i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
      magnitude = std::max(magnitude, std::abs(expected[r][i]));
    }
  return worst / magnitude;
}

// Returns the plan with these tokens chosen, whatever their scores.
Plan with_chosen(Plan plan, const std::vector<std::uint32_t>& chosen) {
  plan.repair.always = chosen;
  plan.repair.attention = plan.repair.divergence = 0;
  plan.repair.budgets.assign(plan.repair.budgets.size(), 0);
  plan.repair.factors.clear();
  return plan;
}

DecoderConfig device_config(Chance& chance) {
  DecoderConfig c = random_config(chance);
  c.hidden = 8 * draw(chance, 3, 9), c.intermediate = 8 * draw(chance, 2, 12);
  c.head_dim = 32 * draw(chance, 1, 2), c.kv_heads = draw(chance, 1, 2),
  c.heads = c.kv_heads * draw(chance, 1, 3);
  c.positions_max = std::min(c.positions_max, 1024u);
  return c;
}

CudaDecoderOptions device_options(Chance& chance) {
  CudaDecoderOptions options = cuda::small_options();
  options.page_tokens = draw(chance, 1, 9);
  options.rows_max = 1000, options.keys_max = 20000;
  options.kv = options.weights == HalfFormat::bf16 && draw_yes(chance, 0.3) ? KvFormat::bf16 : KvFormat::f16;
  options.weights = options.kv == KvFormat::bf16 ? HalfFormat::bf16 : HalfFormat::f16;
  return options;
}

// Random models and plans. The device rounds numbers to 16 bits, so choices are compared only where
// scores differ by more than that rounding.
class RandomBatch {
 public:
  explicit RandomBatch(std::uint64_t seed)
      : chance_(seed),
        config_(device_config(chance_)),
        options_(device_options(chance_)),
        model_(cuda::rounded(kernels::random_decoder(config_, seed), options_.weights)),
        decoder_(cuda::make_cuda_decoder(model_, options_)),
        cpu_(kernels::make_cpu_decoder(model_, {.page_tokens = options_.page_tokens})) {
    for (std::uint32_t i = draw(chance_, 1, 3); i > 0; --i)
      plans_.push_back(draw_yes(chance_, 0.8) ? random_repaired_plan(config_, chance_)
                                              : random_plan(config_, chance_));
    for (const Plan& plan : plans_) {
      REQUIRE(validate(plan, decoder_->limits()) == "");
      requests_.push_back({&plan, std::vector<kernels::SegmentKv>(plan.segments.size())});
    }
  }

  void check() {
    const std::vector<Reply> found = decoder_->run(requests_);
    for (std::size_t i = 0; i < plans_.size(); ++i) check(plans_[i], found[i]);
  }

  // Blocks are computed and kept, or read from there.
  void choose_sources(Source source) {
    for (std::size_t i = 0; i < plans_.size(); ++i)
      for (const kernels::Repair::ReusedSpan& place : plans_[i].repair.reused_spans) {
        kernels::SegmentKv& kv = requests_[i].kv[place.block];
        if (kv.pages.empty()) kv.pages = pages_.take(plans_[i].segments[place.block].tokens.size());
        kv.source = source == Source::compute || draw_yes(chance_, 0.3) ? Source::compute : Source::cached;
      }
  }

  // Counts, by format of keys and values: choices that no rounding decides, and choices that rounding
  // might decide.
  struct Compared {
    int decided = 0, near = 0;
  };
  static inline std::map<KvFormat, Compared> compared;

 private:
  void check(const Plan& plan, const Reply& reply) {
    REQUIRE(reply.too_large == "");
    Plan same = plan;
    const double tolerance = 2 * cuda::tolerance(config_, options_);  // reused keys are rounded once more
    if (config_.layers > 1 && !plan.repair.reused_spans.empty()) {
      same = with_chosen(plan, reply.chosen);
      const Result expected = compute(model_, plan);
      REQUIRE(reply.chosen.size() == expected.chosen.size());
      if (!std::isfinite(expected.gap)) return check_logits(same, reply, tolerance);
      if (expected.gap > tolerance) {
        CHECK(reply.chosen == expected.chosen);
        const Request alone{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
        CHECK(cpu_->run({&alone, 1})[0].chosen == expected.chosen);
        ++compared[options_.kv].decided;
      } else if (expected.gap > 0) {  // another token of nearly equal score may be chosen
        CHECK(shortfall(expected, reply.chosen) < tolerance);
        ++compared[options_.kv].near;
      }
    }
    check_logits(same, reply, tolerance);
  }
  void check_logits(const Plan& plan, const Reply& reply, double tolerance) {
    CHECK(difference(reply, compute(model_, plan).readouts) < tolerance);
  }

  Chance chance_;
  DecoderConfig config_;
  CudaDecoderOptions options_;
  DecoderModel model_;
  std::unique_ptr<kernels::Executor> decoder_, cpu_;
  cuda::DevicePages pages_{decoder_->layout(), {}};
  std::vector<Plan> plans_;
  std::vector<Request> requests_;
};

TEST_CASE("device repair: plans give the reference's logits, and its choices unless rounding decides") {
  if (!cuda::have_device()) return;
  RandomBatch::compared.clear();
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    RandomBatch batch(seed);
    batch.check();
    batch.choose_sources(Source::compute);
    batch.check();
    batch.choose_sources(Source::cached);
    batch.check();
  }
  CHECK(RandomBatch::compared[KvFormat::f16].decided >= 6);
  // With bfloat16, rounding might decide any of these choices.
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16}) {
    CAPTURE(kernels::format_name(format));
    CHECK(RandomBatch::compared[format].near >= 6);
  }
}

// Returns a shop's prompt: items, each alone at its own start, then a user's history, the spans that
// reuse the items, and the tokens that are read.
Plan shop_plan() {
  Plan plan;
  plan.segments.push_back({SegmentKind::item, {20, 21, 22, 23}, 0, {}});
  plan.segments.push_back({SegmentKind::item, {24, 25}, 0, {}});
  plan.segments.push_back({SegmentKind::item, {21, 26, 27}, 0, {}});
  plan.segments.push_back({SegmentKind::user, {1, 2, 3, 4, 5}, 0, {}});
  std::int32_t start = 5;
  const auto add = [&](kernels::Tokens tokens) {
    kernels::VisibleSegments sees;
    sees.add({3, static_cast<std::uint32_t>(plan.segments.size())});
    plan.segments.push_back({SegmentKind::item, tokens, start, sees});
    start += static_cast<std::int32_t>(tokens.size());
  };
  for (std::uint32_t item = 0; item < 3; ++item) {
    plan.repair.reused_spans.push_back({static_cast<std::uint32_t>(plan.segments.size()), item, 0});
    add(plan.segments[item].tokens);
  }
  add({7, 8});
  plan.readouts.push_back({7, 1, {30, 31, 32, 33}});
  plan.repair.budgets = {0};
  return plan;
}

class Shop {
 public:
  Shop() {
    DecoderConfig config = cuda::small_config(kernels::Family::qwen3);
    config.layers = 4;
    decoder_ = cuda::make_cuda_decoder(kernels::random_decoder(config, 11), cuda::small_options());
  }
  Reply run(const Plan& plan) {
    const Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
    return decoder_->run({&request, 1})[0];
  }

 private:
  std::unique_ptr<kernels::Executor> decoder_;
};

double apart(const Reply& a, const Reply& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.readouts.at(0).size(); ++i)
    worst = std::max<double>(worst, std::abs(a.readouts[0][i] - b.readouts.at(0).at(i)));
  return worst;
}

// Returns the plan with the blocks seen at their own positions, instead of the spans that reuse them.
Plan as_blocks(const Plan& plan) {
  Plan blocks = plan;
  blocks.repair = {};
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans) {
    kernels::Segment& block = blocks.segments[place.block];
    block.shift = blocks.segments[place.segment].start - block.start;
  }
  blocks.segments.back().sees = {};
  blocks.segments.back().sees.add({0, 4});
  return blocks;
}

TEST_CASE("device repair: all tokens equal the whole prompt, bit by bit; none equals the blocks unchanged") {
  if (!cuda::have_device()) return;
  Shop shop;
  Plan plan = shop_plan(), whole = plan;
  whole.repair = {};
  const Reply full = shop.run(whole), blocks = shop.run(as_blocks(plan));
  CHECK(apart(full, blocks) > 1e-3);
  const double rounding = 0.02;  // the blocks' tokens are attended in another order
  CHECK(apart(shop.run(plan), blocks) < rounding);
  plan.repair.attention = 1;
  CHECK(apart(shop.run(plan), blocks) < rounding);
  plan.repair.budgets = {9};
  for (const bool mean : {false, true})
    for (const float divergence : {0.0f, 1.0f}) {
      plan.repair.mean = mean, plan.repair.divergence = divergence;
      const Reply all = shop.run(plan);
      CHECK(all.chosen.size() == 9);
      CHECK(apart(all, full) == 0);
    }
  plan.repair.budgets = {4};
  CHECK(apart(shop.run(plan), full) > 1e-3);
  CHECK(apart(shop.run(plan), blocks) > 1e-3);
}

TEST_CASE("device repair: with all layers exact the answer is the whole prompt's, bit by bit") {
  if (!cuda::have_device()) return;
  Shop shop;
  Plan plan = shop_plan(), whole = plan;
  whole.repair = {};
  plan.repair.exact_layers = 4;
  const Reply exact = shop.run(plan);
  CHECK(apart(exact, shop.run(whole)) == 0);
  CHECK(exact.chosen.empty());
}

TEST_CASE("device repair: the answer does not depend on other requests of its batch") {
  if (!cuda::have_device()) return;
  DecoderConfig config = cuda::small_config();
  config.layers = 3;
  const auto decoder =
      cuda::make_cuda_decoder(kernels::random_decoder(config, 3), {.page_tokens = 4,
                                                                   .rows_max = 3000,
                                                                   .keys_max = 1 << 16,
                                                                   .logits_max = 600,
                                                                   .plan_bytes_max = 1 << 22});
  Chance chance(9);
  std::vector<Plan> plans;
  for (int i = 0; i < 4; ++i) plans.push_back(random_repaired_plan(config, chance));
  plans.insert(plans.begin() + 2, random_plan(config, chance));
  std::vector<Request> requests;
  for (const Plan& plan : plans)
    requests.push_back({&plan, std::vector<kernels::SegmentKv>(plan.segments.size())});
  const std::vector<Reply> together = decoder->run(requests);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CAPTURE(i);
    const Reply alone = decoder->run({&requests[i], 1})[0];
    CHECK(together[i].too_large == "");
    CHECK(together[i].chosen == alone.chosen);
    std::vector<std::vector<double>> expected;
    for (const auto& readout : alone.readouts) expected.emplace_back(readout.begin(), readout.end());
    CHECK(difference(together[i], expected) < cuda::tolerance(config, cuda::small_options()));
  }
}

TEST_CASE("device repair: titles have the golden scores and choices, full, reused and with 30 % recomputed") {
  if (!cuda::have_device()) return;
  const auto [folder, golden] = golden_model("tiny-ranker-titles");
  if (folder.empty()) {
    MESSAGE("skipped, no golden file beside the checkout: tiny-ranker-titles");
    return;
  }
  const DecoderModel model = kernels::read_decoder(folder);
  const CudaDecoderOptions options{.page_tokens = 16,
                                   .kv = KvFormat::f16,
                                   .weights = HalfFormat::f16,
                                   .rows_max = 1024,
                                   .keys_max = 1 << 15,
                                   .logits_max = 1 << 10,
                                   .plan_bytes_max = 1 << 20};
  const auto decoder = cuda::make_cuda_decoder(model, options);
  const auto cpu = kernels::make_cpu_decoder(model, {.page_tokens = 16});
  const std::vector<GoldenTitles> cases = title_cases(golden);
  int same = 0, repaired = 0;
  for (std::size_t i = 0; i < 8; ++i) {  // two requests, each in four ways
    const GoldenTitles& one = cases.at(i);
    CAPTURE(one.name);
    const Request request{&one.plan, std::vector<kernels::SegmentKv>(one.plan.segments.size())};
    const Reply reply = decoder->run({&request, 1})[0];
    REQUIRE(reply.too_large == "");
    REQUIRE(reply.chosen.size() == one.chosen.size());
    const Plan plan = one.plan.repair.reused_spans.empty() ? one.plan : with_chosen(one.plan, reply.chosen);
    const Request as_chosen{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
    const Reply expected = cpu->run({&as_chosen, 1})[0];
    double worst = 0;
    for (std::size_t r = 0; r < reply.readouts.size(); ++r) {
      const double found = double{reply.readouts[r][0]} - reply.readouts[r][1];
      worst = std::max(worst, std::abs(found - (double{expected.readouts[r][0]} - expected.readouts[r][1])));
      if (reply.chosen == one.chosen) worst = std::max(worst, std::abs(found - one.scores[r]));
    }
    CHECK(worst < 0.02);
    std::vector<std::uint32_t> apart;  // tokens whose scores 16 bits cannot distinguish from the others'
    std::ranges::set_symmetric_difference(reply.chosen, one.chosen, std::back_inserter(apart));
    CHECK(apart.size() <= 4);
    if (!one.chosen.empty()) ++repaired, same += apart.empty() ? 1 : 0;
  }
  CHECK(repaired == 2);
  CHECK(same >= 1);
}

}  // namespace device_repair_test
}  // namespace
}  // namespace troupe::reference
