#pragma once
// The decoder, written to be read: one plan, all its tokens, dense float64, an explicit mask of who sees
// whom. No cache, no batch, nothing skipped but what the mask hides. Every backend and every way to obtain
// keys and values is tested against this file, and this file against logits that PyTorch computed (golden
// files beside the models).
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/plan.h"
#include "kernels/checkpoint/model.h"

namespace troupe::reference {

// One row per token of the plan, segments one after the other in plan order.
using Rows = std::vector<std::vector<double>>;

// Keys and values that one layer leaves behind, each row [kv_heads * head_dim]; keys are normed and rotated,
// as a cache holds them.
struct LayerKv {
  Rows keys, values;
};

// What a token of a repair's places is chosen by, within its budget. Infinite: it always is.
struct Scored {
  std::uint32_t budget = 0;
  double score = 0;
};

struct Result {
  std::vector<std::vector<double>> readouts;  // [readout][row], in plan order
  std::vector<LayerKv> layers;
  // Of the plan's repair: tokens that were chosen, by their numbers among those of its places; and by how
  // much the least score of those chosen for it is above the highest of the others (a token's mean is one):
  // infinite if all are chosen, or none.
  std::vector<std::uint32_t> chosen;
  double gap = INFINITY;
  std::vector<Scored> scores;
};

// By how much the scores that the reference has for them say that others should have been chosen: of two of a
// budget, one left out over one taken. None where the choice is the reference's own.
double shortfall(const Result& expected, std::span<const std::uint32_t> chosen);

// mask[t][u]: token t attends to token u.
using Mask = std::vector<std::vector<bool>>;
Mask visibility(const kernels::Plan& plan);

// The plan must be sound (kernels::find_fault).
Result compute(const kernels::DecoderModel& model, const kernels::Plan& plan);

}  // namespace troupe::reference
