#pragma once
// Describes which part of a plan is computed approximately, and how (RcLLM §III-C). A reused span
// is a segment of the prompt whose tokens take the keys and values of a block that was computed
// apart from the prompt. Only the first few layers are computed for all tokens; later ones only for
// tokens that are chosen because they matter. Plan and repair together fix the mathematics
// completely: every executor chooses the same tokens, except those whose scores differ by rounding.
//
// The first `exact_layers` layers compute keys and values of all tokens. Later layers compute only
// the chosen tokens, which attend to keys and values of all tokens. A token that is not chosen has
// its block's keys and values, with the keys rotated to the token's position. With `mean` these are
// corrected by the mean difference between the chosen tokens and their blocks (keys before
// rotation), taken over the chosen tokens of the same budget and the same offset in their spans. If
// no token of that offset is chosen, the mean is over all offsets of the budget; if no token is
// chosen at all, nothing is added.
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::kernels {

struct Plan;
struct PlanLimits;

struct Repair {
  // A reused span: a segment of the prompt, which attends and is attended to like any other, and
  // its block, an earlier segment with the same tokens. The block is computed alone or cached,
  // whether or not any segment sees it.
  struct ReusedSpan {
    std::uint32_t segment = 0, block = 0;
    std::uint32_t budget = 0;  // index into budgets
    // The block is not computed: each token has the keys and values of the prototype nearest to it
    // at its position in the prompt (decoder/prototypes.h). Such a block is never cached.
    bool of_prototypes = false;
    bool operator==(const ReusedSpan&) const = default;
  };
  static constexpr std::uint32_t budgets_max = 4;
  struct Weights {
    float attention = 1, divergence = 1;
    bool operator==(const Weights&) const = default;
  };

  std::vector<ReusedSpan> reused_spans;  // reused spans, by ascending segment; none: the plan is exact
  std::vector<std::uint32_t>
      budgets;  // [budget]: tokens chosen by score, beside `always`, among the spans that name it
  // Tokens chosen whatever their score, ascending; numbers among the tokens of all spans, counted
  // span after span.
  std::vector<std::uint32_t> always;
  // Weights of a token's score, which is a sum of two measures. `attention`: the attention that the
  // token receives in the first layer, summed over heads and over the tokens of segments from
  // `attending` on. `divergence`: the distance between the token's own keys and values of the
  // second layer (both as one vector) and its block's. Each measure is divided by its mean over the
  // tokens of the budget, then multiplied by its weight. Higher scores are chosen first, then lower
  // numbers. A measure of weight 0 is not taken.
  float attention = 0, divergence = 0;
  std::uint32_t attending = 0;     // index of a segment
  std::uint32_t exact_layers = 1;  // a divergence computes the second's keys and values too
  bool mean = false;               // correct by mean differences, see above
  std::string prototypes;  // checksum of the file with the prototypes; empty: no block is made of prototypes
  // [budget]: factors of the two weights, for the scores of its tokens; empty: 1 for all budgets. So
  // budgets may choose by different measures.
  std::vector<Weights> factors;

  // Returns the weights of the scores of a budget's tokens.
  Weights weights_of(std::uint32_t budget) const {
    if (budget >= factors.size()) return {attention, divergence};
    return {attention * factors[budget].attention, divergence * factors[budget].divergence};
  }
  bool operator==(const Repair&) const = default;
};

// Returns "" if the repair of an otherwise sound plan is sound too, otherwise what is wrong. Checks
// the members as documented above, and that the model supports repair. Spans must not have a
// shift, replace tokens, be replaced, have a readout or be blocks themselves. A plan with a repair
// must not have a beam search.
std::string validate_repair(const Plan& plan, const PlanLimits& limits);

// Counts the tokens of all spans.
std::size_t repaired_tokens(const Plan& plan);

}  // namespace troupe::kernels
