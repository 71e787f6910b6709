#include "sim/world/toy_model.h"

#include <algorithm>

#include "sim/base/random.h"

namespace troupe::sim {
namespace {

// What page `page` of a block adds to each layer of its value.
std::uint64_t page_salt(std::size_t layer, std::uint32_t page, std::size_t tokens_in_page) {
  return mix(layer + 1, (std::uint64_t{page} << 32) | tokens_in_page);
}

std::size_t tokens_in_page(std::uint32_t page, std::size_t tokens, std::uint32_t page_tokens) {
  return std::min<std::size_t>(page_tokens, tokens - std::size_t{page} * page_tokens);
}

// Of a set: the same for every order, and a value counts once.
std::uint64_t hash_set(std::vector<SegmentValue>& values) {
  std::sort(values.begin(), values.end());
  std::uint64_t hash = 0;
  const SegmentValue* last = nullptr;
  for (const SegmentValue& value : values) {
    if (last && *last == value) continue;
    hash = scramble(hash ^ value.of_layer[0]) + value.of_layer[1];
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

Fingerprint fingerprint(const SegmentValue& value, std::uint32_t page, std::size_t tokens,
                        std::uint32_t page_tokens) {
  const std::size_t here = tokens_in_page(page, tokens, page_tokens);
  Fingerprint print;
  for (std::size_t layer = 0; layer < layers; ++layer)
    print.of_layer[layer] = value.of_layer[layer] ^ page_salt(layer, page, here);
  return print;
}

// Each page without its salt is the value, in every layer; the first one that is not makes it another value.
SegmentValue seen_through(std::span<const Fingerprint> pages, std::size_t tokens, std::uint32_t page_tokens) {
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

std::string find_plan_fault(std::span<const PlannedSegment> segments,
                            std::span<const PlannedReadout> readouts) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const PlannedSegment& segment = segments[i];
    const std::string where = "segment " + std::to_string(i);
    if (segment.tokens.empty()) return where + " is empty";
    for (std::size_t n = 0; n < segment.sees.size(); ++n)
      if (segment.sees[n] >= i || (n > 0 && segment.sees[n] <= segment.sees[n - 1]))
        return where + " sees " + std::to_string(segment.sees[n]) + "; expected earlier segments, ascending";
  }
  for (const PlannedReadout& readout : readouts)
    if (readout.segment >= segments.size() || readout.offset >= segments[readout.segment].tokens.size())
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

std::vector<ScoreRow> evaluate(std::string_view model_version, std::span<const PlannedSegment> segments,
                               std::span<const PlannedReadout> readouts, const ToyFamily& family) {
  const std::uint64_t key = model_key(model_version);
  std::vector<SegmentValue> values, seen;
  values.reserve(segments.size());
  for (const PlannedSegment& segment : segments) {
    seen.clear();
    for (const std::uint32_t s : segment.sees) seen.push_back(values[s]);
    values.push_back(family.value_of(key, segment.tokens, segment.start, seen));
  }
  std::vector<ScoreRow> rows;
  rows.reserve(readouts.size());
  for (const PlannedReadout& readout : readouts)
    rows.push_back(family.logits_of(values[readout.segment], readout.offset, readout.rows));
  return rows;
}

}  // namespace troupe::sim
