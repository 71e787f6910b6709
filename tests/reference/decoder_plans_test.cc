// Tests the CPU decoder against the float64 reference on random models, plans, batches and page sizes,
// with keys and values computed or read from pages. Their source must not change the result.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "kernels/base/float_formats.h"
#include "kernels/cpu/engine/cpu_decoder.h"
#include "kernels/operations/versions.h"
#include "kernels/testing/test_tokens.h"
#include "tests/reference/random_plans.h"
#include "tests/reference/reference.h"

namespace troupe::reference {
namespace {

using kernels::DecoderConfig;
using kernels::DecoderModel;
using kernels::KvFormat;
using kernels::KvLayout;
using kernels::Plan;
using kernels::Request;
using kernels::Source;
using kernels::WeightFormat;

constexpr int kPoison = 0xff;  // written to every byte; it is NaN in every format

// Bound on float32's deviation from float64, relative to the largest of the compared values (at least 1).
// A value is the end of a chain of rounded stages. Each layer has 13: norm, projection, rotation, scores,
// softmax, mixing, output projection, sum, norm, gate and up, SwiGLU, down, sum. The end has 2: norm and
// product. A stage adds up at most n products; rounding errors of a sum of n terms behave like a random
// walk, sqrt(n)·u of its magnitude (Higham and Mary 2019, "A new approach to probabilistic rounding error
// analysis"). Stages add up. Softmax and SwiGLU are products of two values that both carry errors, so a
// layer at most doubles the inherited error once: the factor 2. Keys and values in 16 bits are rounded
// once more, with a larger u. A value moves by u of itself, and the weighted mean of values by no more. A
// score is a sum of head_dim products over sqrt(head_dim), each off by u of itself: as a random walk, u
// times a typical product, which is 1 here (queries and keys have deviation near 1). The weight of a key
// is off by its score's error less the mean of the others': at most twice that. This gives three u for
// each layer. int8 weights and activations are off by up to half a step, 1/254 of the largest weight of a
// row (1/126 where the product allows seven bits) and 1/510 of an activation row's range. The largest of
// normal values is some three deviations, so the error is typically 3/254 of a value on either side, uniform:
// divided by sqrt(3), and multiplied by sqrt(2) for both (by the root of the sum of squares if they differ).
// The error of a sum of such products is the same (a random walk like the sum itself). bf16 weights and
// activations are off by up to 2^-8 of themselves, uniform: the same, with 2^-8 for 3/254. A layer has four
// products.
double tolerance(const DecoderConfig& config, std::size_t tokens, double kv_roundoff = 0,
                 double weight_error = 0) {
  constexpr double kUnitRoundoff = 0x1p-24;
  const double n = std::max<double>({double(config.hidden), double(config.intermediate),
                                     double(config.heads * config.head_dim), double(tokens)});
  const double of_sums = kUnitRoundoff * std::sqrt(n) * (13.0 * config.layers + 2);
  return 2 * (of_sums + kv_roundoff * 3 * config.layers + weight_error * 4 * config.layers);
}

// Returns the unit roundoff of keys and values in this format, beyond float32.
double kv_roundoff(KvFormat format) {
  return format == KvFormat::f32 ? 0 : format == KvFormat::f16 ? 0x1p-11 : 0x1p-8;
}

// `limit` is the greatest magnitude of an int8 weight.
double weight_error(WeightFormat format, std::int32_t limit) {
  if (format == WeightFormat::f32) return 0;
  if (format == WeightFormat::bf16) return 0x1p-8 * std::sqrt(2.0 / 3.0);
  return std::hypot(3.0 / (2 * limit), 3.0 / 254) / std::sqrt(3.0);
}

// Returns the largest difference relative to the largest expected magnitude (at least 1); infinite for NaN.
template <class Found>
double difference(const Found& found, const std::vector<double>& expected) {
  double worst = 0, magnitude = 1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = std::abs(found[i] - expected[i]);
    worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  return worst / magnitude;
}

// Page memory with its own pages for every block; each number is NaN until it is written.
class PageMemory {
 public:
  explicit PageMemory(const KvLayout& layout) : layout_(layout) {}

  std::vector<std::byte*> take(std::size_t tokens) {
    std::vector<std::byte*> block;
    for (std::size_t i = 0; i < layout_.pages_for(tokens); ++i) {
      const std::size_t bytes = (layout_.page_bytes() + 63) / 64 * 64;
      pages_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), &std::free);
      std::memset(pages_.back().get(), kPoison, bytes);
      block.push_back(pages_.back().get());
    }
    return block;
  }

  // Returns the address of a token's key (or value) of one head.
  std::byte* place(const std::vector<std::byte*>& block, std::uint32_t layer, std::uint32_t head,
                   std::size_t token, bool value) const {
    const std::size_t first = value ? layout_.values(layer, head) : layout_.keys(layer, head);
    return block[token / layout_.page_tokens] + first + token % layout_.page_tokens * layout_.vector_bytes();
  }

  // Returns the numbers at that address.
  std::vector<float> read(const std::byte* place) const {
    std::vector<float> numbers(layout_.head_dim);
    if (layout_.format == KvFormat::f32) std::memcpy(numbers.data(), place, layout_.vector_bytes());
    const auto* stored = reinterpret_cast<const std::uint16_t*>(place);
    for (std::size_t i = 0; layout_.format != KvFormat::f32 && i < numbers.size(); ++i)
      numbers[i] =
          layout_.format == KvFormat::f16 ? kernels::from_f16(stored[i]) : kernels::from_bf16(stored[i]);
    return numbers;
  }

  // Poisons the space after the last token of a block: no result may depend on it.
  void poison_rest(const std::vector<std::byte*>& block, std::size_t tokens) const {
    for (std::size_t t = tokens; t < block.size() * layout_.page_tokens; ++t)
      for (std::uint32_t layer = 0; layer < layout_.layers; ++layer)
        for (std::uint32_t head = 0; head < layout_.kv_heads; ++head)
          for (const bool value : {false, true})
            std::memset(place(block, layer, head, t, value), kPoison, layout_.vector_bytes());
  }

  // Returns all bytes of a block, to detect writes.
  std::string image(const std::vector<std::byte*>& block) const {
    std::string bytes;
    for (const std::byte* page : block)
      bytes.append(reinterpret_cast<const char*>(page), layout_.page_bytes());
    return bytes;
  }

  const KvLayout& layout() const { return layout_; }

 private:
  KvLayout layout_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> pages_;
};

// Returns the largest difference of a segment's pages from the reference's keys and values; `first` is
// the segment's first token.
double page_difference(const PageMemory& memory, const std::vector<std::byte*>& block, const Result& expected,
                       std::size_t first, std::size_t tokens) {
  const KvLayout& layout = memory.layout();
  double worst = 0;
  for (std::uint32_t layer = 0; layer < layout.layers; ++layer)
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::uint32_t head = 0; head < layout.kv_heads; ++head)
        for (const bool value : {false, true}) {
          const LayerKv& kv = expected.layers[layer];
          const auto& row = (value ? kv.values : kv.keys)[first + t];
          const auto begin = row.begin() + head * layout.head_dim;
          worst = std::max(worst, difference(memory.read(memory.place(block, layer, head, t, value)),
                                             std::vector<double>(begin, begin + layout.head_dim)));
        }
  return worst;
}

// Returns a request whose segments are all computed, and kept in pages of `memory`.
Request kept(const Plan& plan, PageMemory& memory) {
  Request request{&plan, {}};
  for (const auto& segment : plan.segments)
    request.kv.push_back({Source::compute, memory.take(segment.tokens.size())});
  return request;
}

bool has_readout(const Plan& plan, std::size_t segment) {
  return std::ranges::any_of(plan.readouts, [&](const auto& readout) { return readout.segment == segment; });
}

double logits_difference(const kernels::Reply& found, const Result& expected) {
  if (found.readouts.size() != expected.readouts.size()) return INFINITY;
  double worst = 0;
  for (std::size_t r = 0; r < found.readouts.size(); ++r) {
    if (found.readouts[r].size() != expected.readouts[r].size()) return INFINITY;
    worst = std::max(worst, difference(found.readouts[r], expected.readouts[r]));
  }
  return worst;
}

// Returns teams of two threads that split even the smallest pass.
kernels::Teams split_team() {
  kernels::Teams teams;
  teams.push_back(std::make_unique<kernels::Team>(2, kernels::CpuSet{}, 0));
  return teams;
}

struct Formats {
  KvFormat kv = KvFormat::f32;
  WeightFormat weights = WeightFormat::f32;
  std::int32_t weight_limit = 127;  // of int8
};

// One random model and one batch of random plans, run twice: first all computed and kept, then partly
// read from pages.
class RandomBatch {
 public:
  RandomBatch(std::uint64_t seed, const kernels::VectorKernels& vector_kernels, Formats formats)
      : formats_(formats), chance_(seed), model_(kernels::random_decoder(random_config(chance_), seed)) {
    constexpr std::uint32_t kPageTokens[] = {1, 3, 4, 16, 32};
    const std::uint32_t page_tokens = kPageTokens[draw(chance_, 0, 4)];
    decoder_ = kernels::make_cpu_decoder(
        model_, {.page_tokens = page_tokens, .kv = formats.kv, .weights = formats.weights}, vector_kernels,
        split_team());
    memory_ = std::make_unique<PageMemory>(kernels::kv_layout(model_.config, page_tokens, formats.kv));
    const std::uint32_t count = draw(chance_, 1, 3);
    for (std::uint32_t i = 0; i < count; ++i) plans_.push_back(random_plan(model_.config, chance_));
    for (const Plan& plan : plans_) {
      REQUIRE(kernels::validate(plan, {std::int32_t(model_.config.vocabulary),
                                       std::int32_t(model_.config.positions_max)}) == "");
      const auto [at, fresh] = results.try_emplace({seed, expected_.size()});
      if (fresh) at->second = compute(model_, plan);
      expected_.push_back(&at->second);
      requests_.push_back(kept(plan, *memory_));
    }
  }

  void check_logits() {
    found_ = decoder_->run(requests_);
    REQUIRE(found_.size() == plans_.size());
    for (std::size_t i = 0; i < plans_.size(); ++i)
      CHECK(logits_difference(found_[i], *expected_[i]) < allowed(plans_[i]));
  }

  // Computes the batch again with the present sources: the logits must be those of the last run. This is
  // stricter than the format's tolerance, because the numbers read from pages are those that were
  // attended to when they were computed. Sums in another order may push a few numbers over a rounding
  // edge: each such number moves by 2u of itself, one of many terms, for which an eighth is allowed in
  // total; for bytes, whose steps are coarse, a fifth of the tolerance.
  void check_sources_do_not_matter() {
    const std::vector<kernels::Reply> before = std::move(found_);
    found_ = decoder_->run(requests_);
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      double worst = 0;
      for (std::size_t r = 0; r < before[i].readouts.size(); ++r) {
        const std::vector<double> want(before[i].readouts[r].begin(), before[i].readouts[r].end());
        worst = std::max(worst, difference(found_[i].readouts[r], want));
      }
      CHECK(worst < tolerance(model_.config, kernels::token_count(plans_[i])) + 2 * roundoff() / 8 +
                        weights_off() / 5);
    }
  }

  void check_pages() const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      std::size_t first = 0;
      for (std::size_t s = 0; s < plans_[i].segments.size(); ++s) {
        const std::size_t tokens = plans_[i].segments[s].tokens.size();
        const double off = page_difference(*memory_, requests_[i].kv[s].pages, *expected_[i], first, tokens);
        CHECK(off < allowed(plans_[i]));
        first += tokens;
      }
    }
  }

  // Chooses for segments without a readout: read from their pages, or computed again, with new pages or none.
  void choose_sources() {
    for (std::size_t i = 0; i < plans_.size(); ++i)
      for (std::size_t s = 0; s < plans_[i].segments.size(); ++s) {
        kernels::SegmentKv& kv = requests_[i].kv[s];
        const std::size_t tokens = plans_[i].segments[s].tokens.size();
        if (!has_readout(plans_[i], s) && draw_yes(chance_, 0.6)) {
          kv.source = Source::cached;
          memory_->poison_rest(kv.pages, tokens);
          cached_.emplace_back(kv.pages, memory_->image(kv.pages));
        } else {
          kv.pages = draw_yes(chance_, 0.5) ? memory_->take(tokens) : std::vector<std::byte*>();
        }
      }
  }

  void check_cached_pages_are_untouched() const {
    for (const auto& [pages, image] : cached_) CHECK(memory_->image(pages) == image);
  }

 private:
  double allowed(const Plan& plan) const {
    return tolerance(model_.config, kernels::token_count(plan), roundoff(), weights_off());
  }
  double roundoff() const { return kv_roundoff(formats_.kv); }
  double weights_off() const { return weight_error(formats_.weights, formats_.weight_limit); }

  // The reference's results by seed and plan: they are the same for all formats and instruction sets.
  static inline std::map<std::pair<std::uint64_t, std::size_t>, Result> results;

  Formats formats_;
  Chance chance_;
  DecoderModel model_;
  std::unique_ptr<kernels::Executor> decoder_;
  std::unique_ptr<PageMemory> memory_;
  std::vector<Plan> plans_;
  std::vector<const Result*> expected_;
  std::vector<Request> requests_;
  std::vector<kernels::Reply> found_;
  std::vector<std::pair<std::vector<std::byte*>, std::string>> cached_;
};

void check_random_batches(const kernels::VectorKernels& vector_kernels, Formats formats) {
  constexpr std::uint64_t kFirstSeed = 1, kSeeds = 60;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kSeeds; ++seed) {
    CAPTURE(seed);
    RandomBatch batch(seed, vector_kernels, formats);
    batch.check_logits();
    batch.check_pages();
    batch.choose_sources();
    batch.check_sources_do_not_matter();
    batch.check_logits();
    batch.check_cached_pages_are_untouched();
  }
}

TEST_CASE(
    "decoder plans: random plans give the reference's logits in every format and on every instruction set") {
  for (const kernels::Elementwise& elementwise : kernels::elementwise_versions()) {
    const std::string name(elementwise.name);
    CAPTURE(name);
    const auto attend = std::ranges::find(kernels::attend_versions(), name, &kernels::AttendVersion::name);
    REQUIRE(attend != kernels::attend_versions().end());
    const auto readout = std::ranges::find(kernels::readout_versions(), name, &kernels::ReadoutVersion::name);
    REQUIRE(readout != kernels::readout_versions().end());
    const auto sums =
        std::ranges::find(kernels::sum_exponentials_versions(), name, &kernels::SumExponentialsVersion::name);
    REQUIRE(sums != kernels::sum_exponentials_versions().end());
    const auto product = std::ranges::find(kernels::product_versions(), name, &kernels::ProductVersion::name);
    REQUIRE(product != kernels::product_versions().end());
    REQUIRE((attend->usable && readout->usable && product->usable) == elementwise.usable);
    for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::bf16}) {
      const std::string stored(format_name(format));
      CAPTURE(stored);
      if (elementwise.usable)
        check_random_batches({&elementwise, attend->run, readout->run, sums->run, &*product}, {.kv = format});
    }
    if (!elementwise.usable) MESSAGE("this CPU cannot run " << name);
  }
}

TEST_CASE("decoder plans: bf16 weights give the reference's logits on every instruction set") {
  for (const kernels::ProductVersion& product : kernels::product_versions()) {
    if (!product.usable) continue;
    const std::string name(product.name);
    CAPTURE(name);
    const auto named = [&](auto versions) { return &kernels::version_named(versions, name); };
    const kernels::VectorKernels version{
        named(kernels::elementwise_versions()), named(kernels::attend_versions())->run,
        named(kernels::readout_versions())->run, named(kernels::sum_exponentials_versions())->run, &product};
    check_random_batches(version, {.weights = WeightFormat::bf16});
    check_random_batches(version, {.kv = KvFormat::bf16, .weights = WeightFormat::bf16});
  }
}

TEST_CASE("decoder plans: int8 weights give the reference's logits within byte rounding in every version") {
  for (const kernels::ByteProductVersion& bytes : kernels::byte_product_versions()) {
    const std::string name(bytes.name);
    CAPTURE(name);
    if (!bytes.usable) {
      MESSAGE("this CPU cannot run " << name);
      continue;
    }
    const kernels::VectorKernels version{&kernels::elementwise(),     &kernels::attend,
                                         &kernels::readout_rows,      &kernels::sum_exponentials,
                                         &kernels::product_version(), &bytes};
    const Formats formats{.weights = WeightFormat::int8, .weight_limit = bytes.weight_limit()};
    check_random_batches(version, formats);
    if (&bytes == &kernels::byte_product_version())
      check_random_batches(version, {KvFormat::bf16, formats.weights, formats.weight_limit});
  }
}

DecoderConfig shop_config() {
  Chance chance(5);
  DecoderConfig config = random_config(chance);
  config.layers = 2;  // the user's context reaches the discriminant through the second layer
  config.positions_max = 256;
  config.vocabulary = 100;
  return config;
}

// Returns an item-prefix plan: system, items that see it, a user and a discriminant that see everything
// before them.
Plan shop_plan(const std::vector<std::vector<kernels::Token>>& items, std::vector<kernels::Token> user) {
  Plan plan;
  plan.segments.push_back({kernels::SegmentKind::system, {1, 2, 3}, 0, {}});
  for (const auto& item : items) plan.segments.push_back({kernels::SegmentKind::item, item, 3, {0}});
  const auto all = [&] {
    return kernels::VisibleSegments::all_before(static_cast<std::uint32_t>(plan.segments.size()));
  };
  plan.segments.push_back({kernels::SegmentKind::user, std::move(user), 12, all()});
  plan.segments.push_back({kernels::SegmentKind::discriminant, {4}, 40, all()});
  plan.readouts.push_back({static_cast<std::uint32_t>(plan.segments.size() - 1), 0, {5, 6, 7, 99}});
  return plan;
}

TEST_CASE("decoder plans: blocks of one request serve other requests of a later batch") {
  const DecoderModel model = kernels::random_decoder(shop_config(), 11);
  const auto decoder = kernels::make_cpu_decoder(model, {.page_tokens = 4});
  PageMemory memory(kernels::kv_layout(model.config, 4, KvFormat::f32));
  const std::vector<kernels::Token> shoe{20, 21, 22, 23, 24}, hat{30, 31}, coat{40, 41, 42, 43};
  const Plan first = shop_plan({shoe, hat, coat}, {50, 51, 52});
  Request a = kept(first, memory);
  decoder->run({&a, 1});

  const Plan second = shop_plan({coat, shoe}, {60, 61, 62, 63, 64, 65}), third = shop_plan({hat}, {70});
  Request b{&second, std::vector<kernels::SegmentKv>(5)}, c{&third, std::vector<kernels::SegmentKv>(4)};
  b.kv[0] = c.kv[0] = {Source::cached, a.kv[0].pages};
  b.kv[1] = {Source::cached, a.kv[3].pages};  // coat
  b.kv[2] = {Source::cached, a.kv[1].pages};  // shoe
  c.kv[1] = {Source::cached, a.kv[2].pages};  // hat
  const Request batch[] = {b, c};
  const std::vector<kernels::Reply> found = decoder->run(batch);
  CHECK(logits_difference(found[0], compute(model, second)) < tolerance(model.config, 19));
  CHECK(logits_difference(found[1], compute(model, third)) < tolerance(model.config, 7));

  // The wrong block is detected: the hat's pages are not accepted for a shoe's of the same length.
  const Plan boots = shop_plan({{32, 33}}, {70});
  CHECK(logits_difference(found[1], compute(model, boots)) > 100 * tolerance(model.config, 7));
}

TEST_CASE("decoder plans: the tolerance distinguishes one token, one position and one visible edge") {
  const DecoderModel model = kernels::random_decoder(shop_config(), 11);
  const Plan plan = shop_plan({{20, 21, 22}, {30, 31}}, {50, 51, 52});
  const auto logits = compute(model, plan).readouts[0];
  Plan token = plan, position = plan, sight = plan;
  token.segments[1].tokens = kernels::changed(plan.segments[1].tokens, 0, 25);
  position.segments[2].start += 1;
  sight.segments[3].sees = {0, 2};
  for (const Plan& other : {token, position, sight})
    CHECK(difference(compute(model, other).readouts[0], logits) > 30 * tolerance(model.config, 12));
}

}  // namespace
}  // namespace troupe::reference
