// Tests plans with a repair on the CPU decoder against the float64 reference: random plans and batches,
// blocks computed or read from pages; the cases of no repair and of a full one; trained models' golden
// scores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "kernels/cpu/engine/cpu_decoder.h"
#include "tests/reference/golden.h"
#include "tests/reference/random_plans.h"
#include "tests/reference/reference.h"

namespace troupe::reference {
namespace {
namespace repair_plans_test {

using kernels::DecoderModel;
using kernels::KvFormat;
using kernels::Plan;
using kernels::Reply;
using kernels::Request;
using kernels::SegmentKind;
using kernels::Source;
using kernels::WeightFormat;

// Pages of blocks, with all bytes poisoned until they are written.
class Memory {
 public:
  explicit Memory(const kernels::PageLayout& layout) : layout_(layout) {}
  std::vector<std::byte*> take(std::size_t tokens) {
    std::vector<std::byte*> block;
    for (std::size_t i = 0; i < layout_.pages_for(tokens); ++i) {
      const std::size_t bytes = (layout_.page_bytes() + 63) / 64 * 64;
      pages_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), &std::free);
      std::memset(pages_.back().get(), 0xff, bytes);
      block.push_back(pages_.back().get());
    }
    return block;
  }

 private:
  kernels::PageLayout layout_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> pages_;
};

double difference(const Reply& found, const Result& expected) {
  double worst = 0, magnitude = 1;
  if (found.readouts.size() != expected.readouts.size()) return INFINITY;
  for (std::size_t r = 0; r < found.readouts.size(); ++r)
    for (std::size_t i = 0; i < expected.readouts[r].size(); ++i) {
      const double off = std::abs(found.readouts[r][i] - expected.readouts[r][i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
      magnitude = std::max(magnitude, std::abs(expected.readouts[r][i]));
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

struct Formats {
  KvFormat kv = KvFormat::f32;
  WeightFormat weights = WeightFormat::f32;
  // Tolerance of logits: four times the measured errors of float32 sums, of keys and values in 16 bits
  // (rounded once more when reused elsewhere), and of bytes; within the bound derived in
  // decoder_plans_test.cc.
  double tolerance = 1e-5;
};

// The model and the plans of a seed are the same for all formats and instruction sets, and so are the
// reference's results, which are kept by seed, plan and chosen tokens (none = the reference chooses).
class RandomBatch {
 public:
  RandomBatch(std::uint64_t seed, const kernels::VectorKernels& vector_kernels, const Formats& formats)
      : seed_(seed),
        formats_(formats),
        chance_(seed),
        model_(kernels::random_decoder(random_config(chance_), seed)) {
    kernels::Teams teams;
    teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet{}, 0));
    decoder_ = kernels::make_cpu_decoder(
        model_, {.page_tokens = draw(chance_, 1, 9), .kv = formats.kv, .weights = formats.weights},
        vector_kernels, std::move(teams));
    memory_ = std::make_unique<Memory>(decoder_->layout());
    for (std::uint32_t i = draw(chance_, 1, 3); i > 0; --i)
      plans_.push_back(draw_yes(chance_, 0.8) ? random_repaired_plan(model_.config, chance_)
                                              : random_plan(model_.config, chance_));
    for (const Plan& plan : plans_) {
      REQUIRE(kernels::validate(plan, decoder_->limits()) == "");
      requests_.push_back({&plan, std::vector<kernels::SegmentKv>(plan.segments.size())});
    }
  }

  void check() {
    found_ = decoder_->run(requests_);
    for (std::size_t i = 0; i < plans_.size(); ++i) check(i, found_[i]);
  }

  // Blocks are computed and kept, or read from there.
  void choose_sources(Source source) {
    for (std::size_t i = 0; i < plans_.size(); ++i)
      for (const kernels::Repair::ReusedSpan& place : plans_[i].repair.reused_spans) {
        kernels::SegmentKv& kv = requests_[i].kv[place.block];
        if (kv.pages.empty()) kv.pages = memory_->take(plans_[i].segments[place.block].tokens.size());
        kv.source = source == Source::compute || draw_yes(chance_, 0.3) ? Source::compute : Source::cached;
      }
  }

  static inline std::map<KvFormat, int> choices_compared;

 private:
  using Chosen = std::vector<std::uint32_t>;
  static inline std::map<std::tuple<std::uint64_t, std::size_t, std::optional<Chosen>>, Result> results;

  const Result& expected_of(std::size_t index, const std::optional<Chosen>& chosen) const {
    const auto [at, fresh] = results.try_emplace({seed_, index, chosen});
    const Plan& plan = plans_[index];
    if (fresh) at->second = compute(model_, chosen ? with_chosen(plan, *chosen) : plan);
    return at->second;
  }

  void check(std::size_t index, const Reply& reply) {
    const bool exact = formats_.kv == KvFormat::f32 && formats_.weights == WeightFormat::f32;
    std::optional<Chosen> chosen;
    if (model_.config.layers > 1 && !plans_[index].repair.reused_spans.empty()) {
      chosen = reply.chosen;
      const Result& expected = expected_of(index, {});
      REQUIRE(reply.chosen.size() == expected.chosen.size());
      if (expected.gap > (exact ? 1e-4 : formats_.tolerance) && std::isfinite(expected.gap)) {
        CHECK(reply.chosen == expected.chosen);
        ++choices_compared[formats_.kv];
      } else if (expected.gap > 0) {  // another token of nearly equal score may be chosen
        CHECK(shortfall(expected, reply.chosen) < (exact ? 1e-4 : formats_.tolerance));
      }
    }
    CHECK(difference(reply, expected_of(index, chosen)) < formats_.tolerance);
  }

  std::uint64_t seed_;
  Formats formats_;
  Chance chance_;
  DecoderModel model_;
  std::unique_ptr<kernels::Executor> decoder_;
  std::unique_ptr<Memory> memory_;
  std::vector<Plan> plans_;
  std::vector<Request> requests_;
  std::vector<Reply> found_;
};

void check_random_batches(const kernels::VectorKernels& vector_kernels, const Formats& formats,
                          std::uint64_t seeds = 20) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    RandomBatch batch(seed, vector_kernels, formats);
    batch.check();
    batch.choose_sources(Source::compute);
    batch.check();
    batch.choose_sources(Source::cached);
    batch.check();
  }
}

template <class Versions>
auto named(const Versions& versions, std::string_view name) {
  return std::ranges::find(versions, name, [](const auto& version) { return version.name; });
}

TEST_CASE("repair plans: logits and choices match the reference in every format and instruction set") {
  RandomBatch::choices_compared.clear();
  for (const kernels::Elementwise& elementwise : kernels::elementwise_versions()) {
    const std::string name(elementwise.name);
    CAPTURE(name);
    if (!elementwise.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    const kernels::VectorKernels vector_kernels{&elementwise, named(kernels::attend_versions(), name)->run,
                                                named(kernels::readout_versions(), name)->run,
                                                named(kernels::sum_exponentials_versions(), name)->run,
                                                &*named(kernels::product_versions(), name)};
    check_random_batches(vector_kernels, {}, 50);
    check_random_batches(vector_kernels, {.kv = KvFormat::f16, .tolerance = 3e-3});
    check_random_batches(vector_kernels, {.kv = KvFormat::bf16, .tolerance = 2.4e-2});
  }
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
    CAPTURE(kernels::format_name(format));
    CHECK(RandomBatch::choices_compared[format] > 40);
  }
}

// The tolerance is that of weights of eight bits.
TEST_CASE("repair plans: int8 weights give the reference's logits within the bound of byte rounding") {
  for (const kernels::ByteProductVersion& bytes : kernels::byte_product_versions()) {
    if (!bytes.usable || bytes.weight_limit() < 127) continue;
    CAPTURE(bytes.name);
    check_random_batches({&kernels::elementwise(), &kernels::attend, &kernels::readout_rows,
                          &kernels::sum_exponentials, &kernels::product_version(), &bytes},
                         {.weights = WeightFormat::int8, .tolerance = 0.2});
  }
}

// The bound of weight_error() in decoder_plans_test.cc for bf16, 2 · 2^-8 · sqrt(2/3) · 4 for each layer,
// of up to four.
TEST_CASE("repair plans: bf16 weights give the reference's logits on every instruction set") {
  for (const kernels::ProductVersion& product : kernels::product_versions()) {
    if (!product.usable) continue;
    CAPTURE(product.name);
    check_random_batches({&kernels::elementwise(), &kernels::attend, &kernels::readout_rows,
                          &kernels::sum_exponentials, &product},
                         {.weights = WeightFormat::bf16, .tolerance = 0.1});
  }
}

double largest_off(const std::vector<std::vector<float>>& found, const std::vector<double>& scores) {
  double worst = found.size() == scores.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < found.size() && i < scores.size(); ++i) {
    const double off = std::abs(double(found[i][0]) - found[i][1] - scores[i]);
    worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
  }
  return worst;
}

TEST_CASE("repair plans: titles have the golden scores, full, reused, and with 30 % recomputed") {
  const auto [folder, golden] = golden_model("tiny-ranker-titles");
  if (folder.empty()) {
    MESSAGE("skipped, no golden file beside the checkout: tiny-ranker-titles");
    return;
  }
  const DecoderModel model = kernels::read_decoder(folder);
  const auto decoder = kernels::make_cpu_decoder(model, {.page_tokens = 16});
  const std::vector<GoldenTitles> cases = title_cases(golden);
  REQUIRE(cases.size() == 40);
  for (const GoldenTitles& one : cases) {
    CAPTURE(one.name);
    const Request request{&one.plan, std::vector<kernels::SegmentKv>(one.plan.segments.size())};
    const Reply reply = decoder->run({&request, 1})[0];
    CHECK(largest_off(reply.readouts, one.scores) < 1e-4);
    CHECK(reply.chosen == one.chosen);
  }
  const Result reference = compute(model, cases[3].plan);
  CHECK(reference.chosen == cases[3].chosen);
  for (std::size_t i = 0; i < reference.readouts.size(); ++i)
    CHECK(std::abs(reference.readouts[i][0] - reference.readouts[i][1] - cases[3].scores[i]) < 1e-7);
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
    const auto end = static_cast<std::uint32_t>(plan.segments.size());
    kernels::VisibleSegments sees;
    sees.add({3, end});
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

DecoderModel shop_model() {
  Chance chance(5);
  kernels::DecoderConfig config = random_config(chance);
  config.layers = 4;
  config.positions_max = 256;
  config.vocabulary = 100;
  return kernels::random_decoder(config, 11);
}

Reply run(const Plan& plan, const kernels::DecoderOptions& options = {}) {
  const auto decoder = kernels::make_cpu_decoder(shop_model(), options);
  const Request request{&plan, std::vector<kernels::SegmentKv>(plan.segments.size())};
  return decoder->run({&request, 1})[0];
}

double apart(const Reply& a, const Reply& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.readouts.at(0).size(); ++i)
    worst = std::max<double>(worst, std::abs(a.readouts[0][i] - b.readouts.at(0).at(i)));
  return worst;
}

// Returns the plan without any blocks.
Plan in_full(Plan plan) {
  plan.repair = {};
  return plan;
}

// Returns the plan with the blocks seen at their own positions, instead of the spans that reuse them.
Plan as_blocks(const Plan& plan) {
  Plan blocks = in_full(plan);
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans) {
    kernels::Segment& block = blocks.segments[place.block];
    block.shift = blocks.segments[place.segment].start - block.start;
  }
  blocks.segments.back().sees = {};
  blocks.segments.back().sees.add({0, 4});
  return blocks;
}

TEST_CASE("repair plans: a budget of all tokens equals the whole prompt; none equals the blocks") {
  Plan plan = shop_plan();
  const Reply full = run(in_full(plan)), blocks = run(as_blocks(plan));
  CHECK(apart(full, blocks) > 1e-3);
  CHECK(apart(run(plan), blocks) < 1e-5);
  plan.repair.attention = 1;
  CHECK(apart(run(plan), blocks) < 1e-5);
  plan.repair.budgets = {9};
  for (const bool mean : {false, true}) {
    plan.repair.mean = mean;
    const Reply all = run(plan);
    CHECK(all.chosen.size() == 9);
    CHECK(apart(all, full) < 1e-5);
  }
  plan.repair.budgets = {4};
  CHECK(apart(run(plan), full) > 1e-3);
  CHECK(apart(run(plan), blocks) > 1e-3);
}

TEST_CASE("repair plans: budgets with factors of their own choose the reference's tokens") {
  Plan plan = shop_plan();
  plan.repair.reused_spans[2].budget = 1;
  plan.repair.budgets = {3, 1};
  plan.repair.attention = 1;
  const DecoderModel model = shop_model();
  std::set<std::vector<std::uint32_t>> choices;
  using Factors = std::vector<kernels::Repair::Weights>;
  for (const float lambda : {0.5f, 2.0f})
    for (const Factors& factors : {Factors{}, {{1, 1}, {1, 0}}, {{0, 1}, {1, 0}}, {{1, 0}, {0, 1}}}) {
      CAPTURE(lambda);
      plan.repair.divergence = lambda;
      plan.repair.factors = factors;
      REQUIRE(kernels::validate(plan, kernels::make_cpu_decoder(model, {})->limits()) == "");
      const Result expected = compute(model, plan);
      const Reply found = run(plan);
      CHECK(found.chosen.size() == 4);
      if (expected.gap > 1e-4)
        CHECK(found.chosen == expected.chosen);
      else
        CHECK(shortfall(expected, found.chosen) < 1e-4);
      CHECK(difference(found, compute(model, with_chosen(plan, found.chosen))) < 1e-5);
      choices.insert(found.chosen);
    }
  CHECK(choices.size() > 1);
}

TEST_CASE("repair plans: more exact layers approach the whole prompt, and all of them equal it") {
  Plan plan = shop_plan();
  const Reply full = run(in_full(plan));
  double before = INFINITY;
  for (std::uint32_t layers = 1; layers <= 4; ++layers) {
    plan.repair.exact_layers = layers;
    const double off = apart(run(plan), full);
    CHECK(off < before);
    before = off;
  }
  CHECK(before < 1e-5);
  CHECK(run(plan).chosen.empty());
}

TEST_CASE("repair plans: the answer does not depend on other requests of the batch, nor on cores") {
  const DecoderModel model = shop_model();
  Chance chance(9);
  std::vector<Plan> plans;
  for (int i = 0; i < 6; ++i) plans.push_back(random_repaired_plan(model.config, chance));
  plans.insert(plans.begin() + 2, in_full(shop_plan()));
  plans.push_back(shop_plan());
  std::vector<Request> requests;
  for (const Plan& plan : plans)
    requests.push_back({&plan, std::vector<kernels::SegmentKv>(plan.segments.size())});
  const auto decoder = kernels::make_cpu_decoder(model, {});
  const auto wide = kernels::make_cpu_decoder(model, {.cores = 2});
  const std::vector<Reply> together = decoder->run(requests), shared = wide->run(requests);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CAPTURE(i);
    const Reply alone = decoder->run({&requests[i], 1})[0];
    CHECK(apart(together[i], alone) < 1e-5);
    CHECK(apart(shared[i], alone) < 1e-5);
    CHECK(together[i].chosen == alone.chosen);
    CHECK(shared[i].chosen == alone.chosen);
  }
}

TEST_CASE(
    "repair plans: a request beyond a pass is refused as too large, and its batch runs in smaller ones") {
  Plan plan = shop_plan();
  std::vector<kernels::Token> many(400, 9);
  plan.segments[0].tokens = many;
  plan.segments[4].tokens = many;
  const auto bounded = kernels::make_cpu_decoder(shop_model(), {.memory_bytes = 1, .batch_tokens = 40});
  Plan wide = plan;
  REQUIRE(kernels::validate(in_full(shop_plan()), bounded->limits()) == "");
  const Plan small = shop_plan();
  wide.segments[0].tokens = wide.segments[4].tokens = kernels::Tokens(200, 9);
  for (std::size_t s = 5; s < wide.segments.size(); ++s) wide.segments[s].start += 196;
  REQUIRE(kernels::validate(wide, bounded->limits()) == "");
  const Request requests[] = {{&small, std::vector<kernels::SegmentKv>(8)},
                              {&wide, std::vector<kernels::SegmentKv>(8)}};
  const std::vector<Reply> replies = bounded->run(requests);
  CHECK(apart(replies[0], run(small)) < 1e-5);
  CHECK(replies[1].too_large.find("417 computed tokens and ") == 0);
  CHECK(replies[1].too_large.find("expected at most 256 in one pass; a plan with a repair "
                                  "cannot be computed in parts") != std::string::npos);
}

}  // namespace repair_plans_test
}  // namespace
}  // namespace troupe::reference
