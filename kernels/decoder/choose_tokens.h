#pragma once
// Which tokens of a repair are computed (base/repair.h): those that are in any case, and of each budget's
// others so many with the highest scores.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/repair.h"

namespace troupe::kernels {

// Of each token of the repair's places, by its number. A score that is not a number is the lowest.
struct RepairTokens {
  std::vector<std::uint32_t> budget;
  std::vector<float> attention, divergence;  // what was measured; not yet weighed
  std::vector<std::uint8_t> chosen;
};

// Fills `chosen` in. `order` is working memory.
void choose_tokens(const Repair& repair, RepairTokens& tokens, std::vector<std::uint32_t>& order);

}  // namespace troupe::kernels
