#include "kernels/decoder/choose_tokens.h"

#include <doctest/doctest.h>

#include <cmath>

namespace troupe::kernels {
namespace {
namespace choose_tokens_test {

using Flags = std::vector<std::uint8_t>;

// Four tokens of one budget, two of another.
RepairTokens six_tokens() {
  return {.budget = {0, 0, 1, 0, 1, 0},
          .attention = {1, 4, 9, 2, 1, 1},
          .divergence = {8, 0, 0, 0, 1, 0},
          .chosen = {}};
}

Flags chosen(const Repair& repair, RepairTokens tokens = six_tokens()) {
  std::vector<std::uint32_t> order;
  choose_tokens(repair, tokens, order);
  return tokens.chosen;
}

TEST_CASE("choose tokens: each budget chooses its highest scores, and the lower number of equal ones") {
  Repair repair{.budgets = {2, 1}, .attention = 1};
  CHECK(chosen(repair) == Flags{0, 1, 1, 1, 0, 0});
  repair.budgets = {3, 0};
  CHECK(chosen(repair) == Flags{1, 1, 0, 1, 0, 0});
  repair.budgets = {4, 2};
  CHECK(chosen(repair) == Flags{1, 1, 1, 1, 1, 1});
}

TEST_CASE(
    "choose tokens: tokens chosen always do not count against a budget, and a budget may run out of tokens") {
  Repair repair{.budgets = {1, 2}, .always = {1, 2}, .attention = 1};
  CHECK(chosen(repair) == Flags{0, 1, 1, 1, 1, 0});
  repair.budgets = {0, 0};
  CHECK(chosen(repair) == Flags{0, 1, 1, 0, 0, 0});
}

TEST_CASE("choose tokens: attention and divergence are divided by their means and weighted") {
  Repair repair{.budgets = {1, 0}, .attention = 1, .divergence = 1};
  CHECK(chosen(repair) == Flags{1, 0, 0, 0, 0, 0});  // 0.5 + 4 against 2 + 0
  repair.divergence = 0.25;
  CHECK(chosen(repair) == Flags{0, 1, 0, 0, 0, 0});  // 0.5 + 1
  repair.attention = 0;
  CHECK(chosen(repair) == Flags{1, 0, 0, 0, 0, 0});
}

TEST_CASE("choose tokens: scores that are not finite, and measures that are all zero, have no effect") {
  RepairTokens tokens = six_tokens();
  tokens.attention[1] = NAN;
  CHECK(chosen({.budgets = {2, 1}, .attention = 1}, tokens) == Flags{1, 0, 1, 1, 0, 0});
  tokens.attention.assign(6, 0);
  CHECK(chosen({.budgets = {2, 1}, .attention = 1}, tokens) == Flags{1, 1, 1, 0, 0, 0});
}

}  // namespace choose_tokens_test
}  // namespace
}  // namespace troupe::kernels
