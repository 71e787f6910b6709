#pragma once
// Chooses the tokens of a repair that are computed (base/repair.h): those listed in `always`, and
// for each budget the given number of its other tokens with the highest scores.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/repair.h"

namespace troupe::kernels {

// Values per token of the repair's spans, indexed by the token's number. A score that is not finite
// counts as the lowest.
struct RepairTokens {
  std::vector<std::uint32_t> budget;
  std::vector<float> attention, divergence;  // as measured, without weights
  std::vector<std::uint8_t> chosen;
};

// Fills `chosen`. `order` is working memory.
void choose_tokens(const Repair& repair, RepairTokens& tokens, std::vector<std::uint32_t>& order);

}  // namespace troupe::kernels
