// Chooses which tokens of approximately reused blocks are computed again (the repair of RcLLM
// §III-C). Every backend uses this one deterministic rule: the highest scores first, among equals
// the lower number.
#include "kernels/decoder/choose_tokens.h"

#include <algorithm>
#include <cmath>

namespace troupe::kernels {
namespace {

// Returns the factor of one measure for the tokens of budget `which`: `weight` divided by their
// mean. Values that are not finite count as 0 in the mean. Returns 0, which switches the measure
// off, if the weight is 0 or the sum is not positive. `budget`: each token's budget.
double factor(float weight, const std::vector<float>& measured, const std::vector<std::uint32_t>& budget,
              std::uint32_t which) {
  if (weight == 0) return 0;
  double sum = 0;
  std::size_t tokens = 0;
  for (std::size_t t = 0; t < budget.size(); ++t) {
    if (budget[t] != which) continue;
    if (std::isfinite(measured[t])) sum += measured[t];
    ++tokens;
  }
  return sum > 0 ? weight * static_cast<double>(tokens) / sum : 0;
}

}  // namespace

void choose_tokens(const Repair& repair, RepairTokens& tokens, std::vector<std::uint32_t>& order) {
  tokens.chosen.assign(tokens.budget.size(), 0);
  for (const std::uint32_t token : repair.always) tokens.chosen[token] = 1;
  for (std::uint32_t which = 0; which < repair.budgets.size(); ++which) {
    const Repair::Weights weights = repair.weights_of(which);
    const double attention = factor(weights.attention, tokens.attention, tokens.budget, which);
    const double divergence = factor(weights.divergence, tokens.divergence, tokens.budget, which);
    const auto score = [&](std::uint32_t t) {
      const double sum = (attention > 0 ? attention * tokens.attention[t] : 0) +
                         (divergence > 0 ? divergence * tokens.divergence[t] : 0);
      return std::isfinite(sum) ? sum : -INFINITY;
    };
    order.clear();
    for (std::uint32_t t = 0; t < tokens.budget.size(); ++t)
      if (tokens.budget[t] == which && tokens.chosen[t] == 0) order.push_back(t);
    const std::size_t count = std::min<std::size_t>(repair.budgets[which], order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                        const double of_a = score(a), of_b = score(b);
                        return of_a != of_b ? of_a > of_b : a < b;
                      });
    for (std::size_t i = 0; i < count; ++i) tokens.chosen[order[i]] = 1;
  }
}

}  // namespace troupe::kernels
