#pragma once
// Toy model whose answers cannot be right by accident: two layers of 64-bit mixes instead of a
// transformer. The value of a segment depends on the model version, its tokens and their order, its
// start, and the values of all that it sees (as a set, as in a block's name). A logit depends on
// the value of the segment where it is read, the token inside it and the vocabulary row. Any wrong,
// stale, torn, foreign or mixed block changes the answer, and equal block names mean equal values.
//
// The pages of a cached block hold fingerprints of its value, one per layer. Readers see the block
// only through these: intact pages give the value back, any other set of pages gives another value.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/messages.h"

namespace troupe::sim {

inline constexpr std::size_t layers = 2;

struct SegmentValue {
  std::array<std::uint64_t, layers> of_layer{};
  auto operator<=>(const SegmentValue&) const = default;
};
// Content of a page.
struct PageFingerprint {
  std::array<std::uint64_t, layers> of_layer{};
  bool operator==(const PageFingerprint&) const = default;
};

std::uint64_t model_key(std::string_view model_version);

// `seen` may be in any order and contain repetitions; the function sorts it.
SegmentValue segment_value(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                           std::vector<SegmentValue>& seen);

std::uint32_t pages_for(std::size_t tokens, std::uint32_t page_tokens);
// Returns the fingerprint of page `page` of a block of `tokens` tokens.
PageFingerprint fingerprint(const SegmentValue& value, std::uint32_t page, std::size_t tokens,
                            std::uint32_t page_tokens);
// Returns the value that readers of these pages see. The value is the block's own if every page is
// as `fingerprint` computes it, in order.
SegmentValue seen_through(std::span<const PageFingerprint> pages, std::size_t tokens,
                          std::uint32_t page_tokens);

// Returns one logit per row, in (-8, 8).
ScoreRow logits(const SegmentValue& value, std::uint32_t offset, std::span<const Token> rows);

// Returns "" if the plan is valid, else the reason. Segments must not be empty, and `sees` must
// name earlier segments in ascending order. Replaced tokens must lie inside an earlier segment, and
// readouts inside their segment.
std::string validate_plan(const Plan& plan);

// Collects into `seen` the values that this segment of a valid plan sees, given the values of
// earlier segments. Each value includes how far the segment was moved, and excludes tokens whose
// replacements are seen too. A reused span counts as its own value, its block, and how the repair
// selects and corrects.
void gather_seen(const Plan& plan, std::size_t segment, std::span<const SegmentValue> values,
                 std::vector<SegmentValue>& seen);

// Returns the value under which a repaired span is seen, from its own value and its block's.
SegmentValue repaired_value(const SegmentValue& own, const SegmentValue& block,
                            const kernels::Repair& repair);

// Returns the value of a block made of prototypes. It depends on the prototypes' file, the tokens,
// and the position of the reused span that uses the block. Such a block sees nothing.
SegmentValue prototypes_value(std::uint64_t model_key, std::string_view checksum,
                              std::span<const Token> tokens, std::int32_t place);
// Returns the reused span that uses this block of prototypes; null if the segment is not one.
const kernels::Repair::ReusedSpan* place_of_prototypes(const Plan& plan, std::size_t block);

// Computation of a run's models. A family's values may depend only on what a block's name covers.
class ToyFamily {
 public:
  virtual ~ToyFamily() = default;
  virtual SegmentValue value_of(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                                std::vector<SegmentValue>& seen) const = 0;
  virtual ScoreRow logits_of(const SegmentValue& value, std::uint32_t offset,
                             std::span<const Token> rows) const = 0;
};
const ToyFamily& toy_decoder();  // segment_value and logits

}  // namespace troupe::sim
