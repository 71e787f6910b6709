#pragma once
// What of a plan is computed approximately, and how (RcLLM §III-C): tokens of the prompt that have the keys
// and values of a block that was computed apart from it, in all layers but the first few, save for some that
// are chosen because they matter. Together with the plan it fixes the mathematics completely, so that every
// executor chooses the same tokens but for those whose scores differ by rounding.
//
// The first `exact_layers` layers are computed in full: keys and values of all tokens. From then on only
// chosen tokens are computed, over keys and values of all; a token that is not chosen has its block's, keys
// turned to its position. With `mean` these are corrected: by the average of what the chosen tokens of the
// same budget and the same offset in their places differ from their blocks' (keys before they are rotated);
// where none of that offset is chosen, of all offsets; by nothing where none is chosen at all.
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

struct Plan;
struct PlanLimits;

struct Repair {
  // A segment of the prompt, which sees what is before it and is seen as any other, and an earlier one with
  // the same tokens, the block: computed alone or cached, whether or not anybody sees it.
  struct Place {
    std::uint32_t segment = 0, block = 0;
    std::uint32_t budget = 0;  // into budgets
    // The block is not computed: each of its tokens has the keys and values of the prototype that is nearest
    // to it where the place has it (decoder/prototypes.h). Nobody keeps such a block.
    bool of_prototypes = false;
    bool operator==(const Place&) const = default;
  };
  static constexpr std::uint32_t budgets_max = 4;

  std::vector<Place> places;  // by segment, ascending; none: the plan is exact
  std::vector<std::uint32_t>
      budgets;  // tokens of its places that are chosen by their score, beside those below
  // Chosen whatever their score: numbers among all tokens of the places, one place after the other;
  // ascending.
  std::vector<std::uint32_t> always;
  // A token's score: the attention that it receives in the first layer, summed over heads and over the tokens
  // of segments from `attending` on, and how far its own keys and values of the second layer are from its
  // block's (the length of the difference of both side by side). Each as a multiple of its mean over the
  // tokens of its budget, times its weight here. Higher scores first, then lower numbers.
  float attention = 0, divergence = 0;
  std::uint32_t attending = 0;
  std::uint32_t exact_layers = 1;
  bool mean = false;
  std::string prototypes;  // of which file those are, by its checksum; empty: no block is made of any
  bool operator==(const Repair&) const = default;
};

// Empty if the repair of an otherwise sound plan is sound, too: what is said at its members; none of it for a
// model that does not repair; places that stand where they are seen, replace nothing and are not replaced,
// are not read out and not blocks themselves; no search behind it.
std::string find_repair_fault(const Plan& plan, const PlanLimits& limits);

// Of all places.
std::size_t repaired_tokens(const Plan& plan);

}  // namespace troupe::kernels
