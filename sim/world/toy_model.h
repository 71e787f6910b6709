#pragma once
// A model that cannot be right by accident: 64-bit mixes in the place of a transformer, two layers of them.
// The value of a segment depends on the model's version, each of its tokens and their order, its start, and
// the values of all that it sees (as a set, as in a block's name); a logit depends on the value of the
// segment where it is read, on the token inside it and on the vocabulary row. Whatever wrong, stale, torn,
// foreign or mixed block gets into a computation changes its answer, and equal names mean equal values.
//
// The pages of a cached block hold fingerprints of its value, one per layer. Whoever sees the block sees it
// through these only: pages that are all right give the value again, any other set of pages gives another
// one.
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
// What a page holds.
struct Fingerprint {
  std::array<std::uint64_t, layers> of_layer{};
  bool operator==(const Fingerprint&) const = default;
};

std::uint64_t model_key(std::string_view model_version);

// `seen` in any order and with repetitions; it is sorted.
SegmentValue segment_value(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                           std::vector<SegmentValue>& seen);

std::uint32_t pages_for(std::size_t tokens, std::uint32_t page_tokens);
// Of the page with this index in its block of `tokens` tokens.
Fingerprint fingerprint(const SegmentValue& value, std::uint32_t page, std::size_t tokens,
                        std::uint32_t page_tokens);
// The value that readers of these pages see: the block's own if all are as `fingerprint` says, in their
// order.
SegmentValue seen_through(std::span<const Fingerprint> pages, std::size_t tokens, std::uint32_t page_tokens);

// In (-8, 8), one per row.
ScoreRow logits(const SegmentValue& value, std::uint32_t offset, std::span<const Token> rows);

// Empty if the plan is sound: no empty segment, `sees` ascending and earlier, what is replaced inside an
// earlier segment, readouts inside their segment.
std::string find_plan_fault(const Plan& plan);

// What this segment of a sound plan sees of those before it, whose own values are given: each as far as it
// was moved, and without the tokens in whose place others stand that are seen, too. A place of a repair is
// seen as made of itself, its block, and how the repair chooses and corrects.
void gather_seen(const Plan& plan, std::size_t segment, std::span<const SegmentValue> values,
                 std::vector<SegmentValue>& seen);

// A place of that repair as it is seen: its own value, and its block's.
SegmentValue repaired_value(const SegmentValue& own, const SegmentValue& block,
                            const kernels::Repair& repair);

// A block that is made of prototypes: of which file, of which tokens, and of where the place is that has
// them. Nothing is seen.
SegmentValue prototypes_value(std::uint64_t model_key, std::string_view checksum,
                              std::span<const Token> tokens, std::int32_t place);
// The place whose block that segment is, if it is made so; else null.
const kernels::Repair::Place* place_of_prototypes(const Plan& plan, std::size_t block);

// How the models of a run compute. Whatever a family makes of a segment has to follow from what a block's
// name covers.
class ToyFamily {
 public:
  virtual ~ToyFamily() = default;
  virtual SegmentValue value_of(std::uint64_t model_key, std::span<const Token> tokens, std::int32_t start,
                                std::vector<SegmentValue>& seen) const = 0;
  virtual ScoreRow logits_of(const SegmentValue& value, std::uint32_t offset,
                             std::span<const Token> rows) const = 0;
};
const ToyFamily& toy_decoder();  // segment_value and logits

// The truth: everything computed, nothing cached. The plan must be sound.
std::vector<ScoreRow> evaluate(std::string_view model_version, const Plan& plan,
                               const ToyFamily& family = toy_decoder());

}  // namespace troupe::sim
