#pragma once
// The decoder, written to be read: one plan, all its tokens, dense float64, an explicit visibility mask.
// It has no cache, no batch, and skips only what the mask hides. Every backend and every source of keys
// and values is tested against this file, and this file against logits that PyTorch computed (golden
// files beside the models).
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/plan.h"
#include "kernels/checkpoint/model.h"

namespace troupe::reference {

// One row for each token of the plan, segments one after the other in plan order.
using Rows = std::vector<std::vector<double>>;

// Keys and values that one layer writes, each row [kv_heads * head_dim]; keys are normed and rotated, as
// in a cache.
struct LayerKv {
  Rows keys, values;
};

// Score by which a reused token is chosen within its budget; infinite = always chosen.
struct TokenScore {
  std::uint32_t budget = 0;
  double score = 0;
};

struct Result {
  std::vector<std::vector<double>> readouts;  // [readout][row], in plan order
  std::vector<LayerKv> layers;
  // Result of the plan's repair. `chosen`: the chosen tokens, by their numbers among the reused ones.
  // `gap`: how far the lowest score of a chosen token is above the highest of the others (1 = a token's
  // mean score); infinite if all are chosen, or none.
  std::vector<std::uint32_t> chosen;
  double gap = INFINITY;
  std::vector<TokenScore> scores;
};

// Returns how far `chosen` is from the reference's choice: the largest difference, within a budget,
// between the scores of a token left out and a token chosen; 0 for the reference's own choice.
double shortfall(const Result& expected, std::span<const std::uint32_t> chosen);

// mask[t][u]: token t attends to token u.
using Mask = std::vector<std::vector<bool>>;
Mask visibility(const kernels::Plan& plan);

// The plan must be sound (kernels::validate).
Result compute(const kernels::DecoderModel& model, const kernels::Plan& plan);

}  // namespace troupe::reference
