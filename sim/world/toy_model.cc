// Replaces the transformer in simulations by hashes. A segment's keys and values become one number
// per layer, made from everything it depends on, so any wrong reuse changes the scores.
#include "sim/world/toy_model.h"

#include <algorithm>

#include "kernels/base/hash.h"
#include "sim/base/random.h"

namespace troupe::sim {
namespace {

// Returns what is XORed into layer `layer` of a block's value on page `page`, so that pages of one
// block differ.
std::uint64_t page_salt(std::size_t layer, std::uint32_t page, std::size_t tokens_in_page) {
  return mix(layer + 1, (std::uint64_t{page} << 32) | tokens_in_page);
}

std::size_t tokens_in_page(std::uint32_t page, std::size_t tokens, std::uint32_t page_tokens) {
  return std::min<std::size_t>(page_tokens, tokens - std::size_t{page} * page_tokens);
}

// Hashes a set: independent of order, duplicates count once.
std::uint64_t hash_set(std::vector<SegmentValue>& values) {
  std::sort(values.begin(), values.end());
  std::uint64_t hash = 0;
  const SegmentValue* last = nullptr;
  for (const SegmentValue& value : values) {
    if (last && *last == value) continue;
    hash = spread(hash ^ value.of_layer[0]) + value.of_layer[1];
    last = &value;
  }
  return mix(hash, values.empty() ? 0 : 1);
}

}  // namespace

std::uint64_t model_key(std::string_view model_version) { return mix(hash_of(model_version), 3); }

SegmentValue segment_value(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                           std::vector<SegmentValue>& seen) {
  const std::uint64_t input =
      mix(model_key, hash_of(tokens), static_cast<std::uint32_t>(start), hash_set(seen));
  SegmentValue value;
  for (std::size_t layer = 0; layer < layers; ++layer) value.of_layer[layer] = mix(input, layer);
  return value;
}

std::uint32_t pages_for(std::size_t tokens, std::uint32_t page_tokens) {
  return static_cast<std::uint32_t>((tokens + page_tokens - 1) / page_tokens);
}

PageFingerprint fingerprint(const SegmentValue& value, std::uint32_t page, std::size_t tokens,
                            std::uint32_t page_tokens) {
  const std::size_t here = tokens_in_page(page, tokens, page_tokens);
  PageFingerprint print;
  for (std::size_t layer = 0; layer < layers; ++layer)
    print.of_layer[layer] = value.of_layer[layer] ^ page_salt(layer, page, here);
  return print;
}

// Recovers a block's value from its pages. If every page without its salt is the same, that is the
// value. Each page that differs from page 0 (mixed up, stale, of another block) changes the result.
SegmentValue seen_through(std::span<const PageFingerprint> pages, std::size_t tokens,
                          std::uint32_t page_tokens) {
  SegmentValue value;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::uint64_t first = 0, seen = 0;
    for (std::uint32_t page = 0; page < pages.size(); ++page) {
      const std::size_t here = tokens_in_page(page, tokens, page_tokens);
      const std::uint64_t here_seen = pages[page].of_layer[layer] ^ page_salt(layer, page, here);
      if (page == 0)
        first = seen = here_seen;
      else if (here_seen != first)
        seen = mix(seen, page, here_seen);
    }
    value.of_layer[layer] = seen;
  }
  return value;
}

ScoreRow logits(const SegmentValue& value, std::uint32_t offset, std::span<const Token> rows) {
  const std::uint64_t state = mix(value.of_layer[0], value.of_layer[1], offset);
  ScoreRow row;
  row.scores.reserve(rows.size());
  for (const Token token : rows)
    row.scores.push_back(16 * to_unit(mix(state, static_cast<std::uint32_t>(token))) - 8);
  return row;
}

namespace {

std::string segment_fault(const Plan& plan, std::size_t index) {
  const Segment& segment = plan.segments[index];
  const auto where = [index] { return "segment " + std::to_string(index); };
  if (segment.tokens.empty()) return where() + " is empty";
  std::uint32_t least = 0;
  for (const VisibleSegments::Range range : segment.sees.ranges()) {
    if (range.begin < least || range.begin >= range.end || range.end > index)
      return where() + " sees segments " + std::to_string(range.begin) + " to before " +
             std::to_string(range.end) + "; expected earlier segments, ascending";
    least = range.end;
  }
  const kernels::ReplacedTokens replaced = segment.replaces;
  if (replaced.segment == kernels::ReplacedTokens::none) return "";
  if (replaced.segment >= index || segment.sees.contains(replaced.segment) ||
      std::uint64_t{replaced.offset} + segment.tokens.size() > plan.segments[replaced.segment].tokens.size())
    return where() + " replaces tokens from " + std::to_string(replaced.offset) + " of segment " +
           std::to_string(replaced.segment) + "; expected tokens of an earlier segment that it does not see";
  return "";
}

}  // namespace

std::string validate_plan(const Plan& plan) {
  for (std::size_t i = 0; i < plan.segments.size(); ++i)
    if (std::string fault = segment_fault(plan, i); !fault.empty()) return fault;
  for (const kernels::Repair::ReusedSpan& place : plan.repair.reused_spans)
    if (place.segment >= plan.segments.size() || place.block >= place.segment ||
        plan.segments[place.block].tokens != plan.segments[place.segment].tokens)
      return "segment " + std::to_string(place.segment) + " is repaired from segment " +
             std::to_string(place.block) + "; expected an earlier segment with the same tokens";
  for (const Readout& readout : plan.readouts)
    if (readout.segment >= plan.segments.size() ||
        readout.offset >= plan.segments[readout.segment].tokens.size())
      return "a readout is outside its plan: segment " + std::to_string(readout.segment) + ", offset " +
             std::to_string(readout.offset);
  return "";
}

const ToyFamily& toy_decoder() {
  class ToyDecoder final : public ToyFamily {
    SegmentValue value_of(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                          std::vector<SegmentValue>& seen) const override {
      return segment_value(model_key, tokens, start, seen);
    }
    ScoreRow logits_of(const SegmentValue& value, std::uint32_t offset,
                       std::span<const Token> rows) const override {
      return logits(value, offset, rows);
    }
  };
  static const ToyDecoder decoder;
  return decoder;
}

namespace {

// Hash of the repair's parameters, on which all its reused spans depend.
std::uint64_t hash_of(const kernels::Repair& repair) {
  std::uint64_t hash = mix(repair.exact_layers, repair.mean, repair.attending);
  for (const float weight : {repair.attention, repair.divergence})
    hash = mix(hash, static_cast<std::uint64_t>(static_cast<double>(weight) * 1024));
  for (const kernels::Repair::Weights& factors : repair.factors)
    for (const float factor : {factors.attention, factors.divergence})
      hash = mix(hash, static_cast<std::uint64_t>(static_cast<double>(factor) * 1024));
  for (const std::uint32_t budget : repair.budgets) hash = mix(hash, budget);
  for (const std::uint32_t token : repair.always) hash = mix(hash, token);
  return hash;
}

}  // namespace

SegmentValue repaired_value(const SegmentValue& own, const SegmentValue& block,
                            const kernels::Repair& repair) {
  SegmentValue seen = own;
  const std::uint64_t from = mix(block.of_layer[0], block.of_layer[1], hash_of(repair));
  for (std::uint64_t& layer : seen.of_layer) layer = mix(layer, 3, from);
  return seen;
}

SegmentValue prototypes_value(std::uint64_t model_key, std::string_view checksum,
                              std::span<const Token> tokens, std::int32_t place) {
  const std::uint64_t made =
      mix(model_key, hash_of(checksum), hash_of(tokens), static_cast<std::uint32_t>(place));
  SegmentValue value;
  for (std::size_t layer = 0; layer < layers; ++layer) value.of_layer[layer] = mix(made, layer, 0x9707);
  return value;
}

const kernels::Repair::ReusedSpan* place_of_prototypes(const Plan& plan, std::size_t block) {
  if (plan.repair.prototypes.empty()) return nullptr;
  const auto at = std::ranges::find_if(
      plan.repair.reused_spans,
      [&](const kernels::Repair::ReusedSpan& place) { return place.of_prototypes && place.block == block; });
  return at == plan.repair.reused_spans.end() ? nullptr : &*at;
}

void gather_seen(const Plan& plan, std::size_t segment, std::span<const SegmentValue> values,
                 std::vector<SegmentValue>& seen) {
  seen.clear();
  const VisibleSegments& sees = plan.segments[segment].sees;
  const auto change = [](SegmentValue& value, std::uint64_t a, std::uint64_t b) {
    for (std::uint64_t& layer : value.of_layer) layer = mix(layer, a, b);
  };
  std::vector<std::size_t> place(segment);  // index in `seen`
  const auto& reused_spans = plan.repair.reused_spans;
  for (const std::uint32_t s : sees) {
    place[s] = seen.size();
    seen.push_back(values[s]);
    if (const std::int32_t shift = plan.segments[s].shift; shift != 0)
      change(seen.back(), 1, static_cast<std::uint32_t>(shift));
    const auto at = std::ranges::lower_bound(reused_spans, s, {}, &kernels::Repair::ReusedSpan::segment);
    if (at == reused_spans.end() || at->segment != s) continue;
    seen.back() = repaired_value(seen.back(), values[at->block], plan.repair);
  }
  for (const std::uint32_t s : sees) {
    const kernels::ReplacedTokens replaced = plan.segments[s].replaces;
    if (replaced.segment != kernels::ReplacedTokens::none && sees.contains(replaced.segment))
      change(seen[place[replaced.segment]], 2 + replaced.offset, plan.segments[s].tokens.size());
  }
}

}  // namespace troupe::sim
