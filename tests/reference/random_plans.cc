#include "tests/reference/random_plans.h"

#include <algorithm>
#include <array>

namespace troupe::reference {
namespace {

using kernels::DecoderConfig;
using kernels::Family;
using kernels::Plan;
using kernels::RopeScaling;
using kernels::Segment;
using kernels::SegmentKind;
using kernels::Token;

template <class Value, std::size_t size>
Value pick(Chance& chance, const std::array<Value, size>& values) {
  return values[draw(chance, 0, size - 1)];
}

void draw_heads(Chance& chance, DecoderConfig& config) {
  config.head_dim = pick<std::uint32_t>(chance, std::array{16u, 18u, 24u, 32u, 40u, 64u, 128u});
  const std::uint32_t queries_per_key = pick<std::uint32_t>(chance, std::array{1u, 2u, 4u, 7u});
  const std::uint32_t kv_heads_max = std::max(1u, 1024 / (config.head_dim * queries_per_key));
  config.kv_heads = draw(chance, 1, std::min(3u, kv_heads_max));
  config.heads = config.kv_heads * queries_per_key;
}

RopeScaling random_scaling(Chance& chance, std::uint32_t positions_max) {
  RopeScaling scaling;
  scaling.kind =
      pick(chance, std::array{RopeScaling::Kind::none, RopeScaling::Kind::linear, RopeScaling::Kind::llama3});
  if (scaling.kind == RopeScaling::Kind::none) return scaling;
  scaling.factor = draw(chance, 2, 8);
  if (scaling.kind == RopeScaling::Kind::llama3) scaling.original_positions = positions_max / scaling.factor;
  return scaling;
}

std::vector<Token> random_tokens(const DecoderConfig& config, std::uint32_t count, Chance& chance) {
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(draw(chance, 0, config.vocabulary - 1));
  return tokens;
}

Segment random_segment(const DecoderConfig& config, std::uint32_t length, Chance& chance) {
  Segment segment;
  segment.kind = static_cast<SegmentKind>(draw(chance, 0, static_cast<std::uint32_t>(SegmentKind::beam)));
  segment.tokens = random_tokens(config, length, chance);
  segment.start = static_cast<std::int32_t>(draw(chance, 0, config.positions_max - length));
  return segment;
}

// Shifts some blocks from the positions at which they were computed.
void shift_some(const DecoderConfig& config, Plan& plan, Chance& chance) {
  for (Segment& segment : plan.segments) {
    if (!draw_yes(chance, 0.3)) continue;
    const auto last = config.positions_max - static_cast<std::uint32_t>(segment.tokens.size());
    segment.shift = static_cast<std::int32_t>(draw(chance, 0, last)) - segment.start;
  }
}

// Replaces an earlier segment by a span of a few reused tokens, if it is no such span and sees none.
void replace_some(const DecoderConfig& config, Plan& plan, Chance& chance) {
  const auto earlier = draw(chance, 0, static_cast<std::uint32_t>(plan.segments.size() - 1));
  const auto length = static_cast<std::uint32_t>(plan.segments[earlier].tokens.size());
  Segment segment = random_segment(config, draw(chance, 1, length), chance);
  const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
  segment.replaces = {earlier, draw(chance, 0, length - tokens)};
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s) {
    const kernels::ReplacedTokens& other = plan.segments[s].replaces;
    if (other.segment == earlier || s == earlier) {
      if (s != earlier) return;  // one is enough for a plan
      if (other.segment != kernels::ReplacedTokens::none) return;
    } else if (draw_yes(chance, 0.6)) {
      segment.sees.add(s);
    }
  }
  plan.segments.push_back(std::move(segment));
}

}  // namespace

std::uint32_t draw(Chance& chance, std::uint32_t least, std::uint32_t most) {
  return std::uniform_int_distribution<std::uint32_t>(least, most)(chance);
}

bool draw_yes(Chance& chance, double probability) { return std::bernoulli_distribution(probability)(chance); }

DecoderConfig random_config(Chance& chance) {
  DecoderConfig config;
  config.family = pick(chance, std::array{Family::qwen2, Family::qwen3, Family::llama});
  config.layers = draw(chance, 1, 3);
  config.hidden = draw(chance, 12, 80);
  config.intermediate = draw(chance, 16, 100);
  config.vocabulary = draw(chance, 20, 200);
  config.positions_max = pick(chance, std::array{128u, 1024u, 20000u});
  draw_heads(chance, config);
  config.rms_epsilon = pick(chance, std::array{1e-6, 1e-5});
  config.rope_theta = pick(chance, std::array{1e4, 5e5, 1e6});
  config.rope_scaling = random_scaling(chance, config.positions_max);
  config.qkv_bias = config.family == Family::qwen2 || draw_yes(chance, 0.3);
  config.qk_norm = config.family == Family::qwen3;
  config.tied_embeddings = draw_yes(chance, 0.5);
  return config;
}

Plan random_plan(const DecoderConfig& config, Chance& chance) {
  Plan plan;
  const std::uint32_t segments = draw(chance, 1, 8);
  const std::uint32_t length_max = pick(chance, std::array{5u, 20u, 70u});
  const double sight = pick(chance, std::array{0.0, 0.3, 0.7, 1.0});
  for (std::uint32_t s = 0; s < segments; ++s) {
    Segment segment = random_segment(config, draw(chance, 1, length_max), chance);
    if (s > 0 && draw_yes(chance, 0.4))
      segment.sees = plan.segments.back().sees;
    else
      for (std::uint32_t earlier = 0; earlier < plan.segments.size(); ++earlier)
        if (draw_yes(chance, sight)) segment.sees.add(earlier);
    plan.segments.push_back(std::move(segment));
    if (draw_yes(chance, 0.2)) replace_some(config, plan, chance);
  }
  if (draw_yes(chance, 0.4)) shift_some(config, plan, chance);
  const auto count = static_cast<std::uint32_t>(plan.segments.size());
  const std::uint32_t readouts = draw(chance, 1, 3);
  for (std::uint32_t r = 0; r < readouts; ++r) {
    const std::uint32_t segment = r == 0 ? count - 1 : draw(chance, 0, count - 1);
    const auto last = static_cast<std::uint32_t>(plan.segments[segment].tokens.size() - 1);
    plan.readouts.push_back(
        {segment, draw(chance, 0, last), random_tokens(config, draw(chance, 1, 9), chance)});
  }
  return plan;
}

namespace {

// Returns what a segment sees of the prompt before it, mostly all; `blocks` are not part of the prompt.
kernels::VisibleSegments prompt_before(const Plan& plan, std::uint32_t blocks_begin, std::uint32_t blocks_end,
                                       Chance& chance) {
  kernels::VisibleSegments sees;
  const double sight = draw_yes(chance, 0.7) ? 1 : 0.6;
  for (std::uint32_t s = 0; s < plan.segments.size(); ++s)
    if ((s < blocks_begin || s >= blocks_end) && draw_yes(chance, sight)) sees.add(s);
  return sees;
}

void draw_choice(const DecoderConfig& config, Plan& plan, Chance& chance) {
  kernels::Repair& repair = plan.repair;
  const auto weight = [&] { return pick(chance, std::array{0.0f, 0.5f, 1.0f}); };
  repair.attention = weight();
  repair.divergence = weight();
  repair.attending = draw(chance, 0, static_cast<std::uint32_t>(plan.segments.size()));
  repair.exact_layers = draw(chance, 1, config.layers + 1);
  repair.mean = draw_yes(chance, 0.5);
  std::vector<std::uint32_t> tokens(repair.budgets.size());
  for (const kernels::Repair::ReusedSpan& place : repair.reused_spans)
    tokens[place.budget] += static_cast<std::uint32_t>(plan.segments[place.segment].tokens.size());
  for (std::size_t i = 0; i < tokens.size() && (repair.attention > 0 || repair.divergence > 0); ++i)
    repair.budgets[i] = draw(chance, 0, tokens[i]);
  const double always = pick(chance, std::array{0.0, 0.1, 0.5, 1.0});
  for (std::uint32_t t = 0; t < kernels::repaired_tokens(plan); ++t)
    if (draw_yes(chance, always)) repair.always.push_back(t);
}

}  // namespace

Plan random_repaired_plan(const DecoderConfig& config, Chance& chance) {
  Plan plan;
  const std::uint32_t length_max = pick(chance, std::array{3u, 12u, 40u}), blocks = draw(chance, 1, 6);
  const auto segment = [&] { return random_segment(config, draw(chance, 1, length_max), chance); };
  if (draw_yes(chance, 0.5)) plan.segments.push_back(segment());
  const auto begin = static_cast<std::uint32_t>(plan.segments.size());
  for (std::uint32_t b = 0; b < blocks; ++b) {
    plan.segments.push_back(segment());
    if (begin > 0 && draw_yes(chance, 0.5)) plan.segments.back().sees = {0};
  }
  plan.repair.budgets.resize(draw(chance, 1, 2));
  for (std::uint32_t b = 0; b < blocks; ++b) {
    if (draw_yes(chance, 0.3)) {
      Segment other = segment();
      other.sees = prompt_before(plan, begin, begin + blocks, chance);
      plan.segments.push_back(std::move(other));
    }
    Segment place = segment();
    place.tokens = plan.segments[begin + b].tokens;
    place.start = static_cast<std::int32_t>(
        draw(chance, 0, config.positions_max - static_cast<std::uint32_t>(place.tokens.size())));
    place.sees = prompt_before(plan, begin, begin + blocks, chance);
    plan.repair.reused_spans.push_back(
        {static_cast<std::uint32_t>(plan.segments.size()), begin + b,
         draw(chance, 0, static_cast<std::uint32_t>(plan.repair.budgets.size() - 1))});
    plan.segments.push_back(std::move(place));
  }
  Segment last = segment();
  last.sees = prompt_before(plan, begin, begin + blocks, chance);
  const auto at = static_cast<std::uint32_t>(plan.segments.size());
  for (std::uint32_t r = draw(chance, 1, 3); r > 0; --r)
    plan.readouts.push_back({at, draw(chance, 0, static_cast<std::uint32_t>(last.tokens.size() - 1)),
                             random_tokens(config, draw(chance, 1, 9), chance)});
  plan.segments.push_back(std::move(last));
  draw_choice(config, plan, chance);
  return plan;
}

}  // namespace troupe::reference
