#include "kernels/decoder/choose_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

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

// Returns the tokens that a plain computation of the rule chooses: scores in double, sorted as a whole.
Flags plainly_chosen(const RepairTokens& tokens, std::uint32_t budget, double attention, double divergence,
                     std::size_t count) {
  double all_attention = 0, all_divergence = 0, many = 0;
  for (std::size_t t = 0; t < tokens.budget.size(); ++t) {
    if (tokens.budget[t] != budget) continue;
    all_attention += tokens.attention[t];
    all_divergence += tokens.divergence[t];
    ++many;
  }
  std::vector<std::pair<double, std::size_t>> order;  // by falling score, then by number
  for (std::size_t t = 0; t < tokens.budget.size(); ++t)
    if (tokens.budget[t] == budget)
      order.emplace_back(-attention * tokens.attention[t] * many / all_attention -
                             divergence * tokens.divergence[t] * many / all_divergence,
                         t);
  std::ranges::sort(order);
  Flags flags(tokens.budget.size());
  for (std::size_t i = 0; i < count; ++i) flags[order.at(i).second] = 1;
  return flags;
}

RepairTokens random_tokens(std::mt19937& random, std::size_t count) {
  RepairTokens tokens;
  for (std::size_t t = 0; t < count; ++t) {
    tokens.budget.push_back(static_cast<std::uint32_t>(random() % 2));
    tokens.attention.push_back(static_cast<float>(random() % 1'000) + 1);
    tokens.divergence.push_back(static_cast<float>(random() % 1'000) + 1);
  }
  tokens.budget.front() = 0, tokens.budget.back() = 1;
  return tokens;
}

TEST_CASE("choose tokens: the weight of the divergence is that of a plain computation: none, half, twice") {
  std::mt19937 random(3);
  for (const float lambda : {0.0f, 0.5f, 2.0f})
    for (int i = 0; i < 20; ++i) {
      CAPTURE(lambda);
      RepairTokens tokens = random_tokens(random, 60);
      tokens.budget.assign(60, 0);
      const Repair repair{.budgets = {20}, .attention = 1, .divergence = lambda};
      CHECK(chosen(repair, tokens) == plainly_chosen(tokens, 0, 1, lambda, 20));
    }
}

TEST_CASE("choose tokens: each budget has its own factors of the weights") {
  std::mt19937 random(4);
  for (int i = 0; i < 20; ++i) {
    const RepairTokens tokens = random_tokens(random, 60);
    const auto in = [&](std::uint32_t budget) {
      return static_cast<std::size_t>(std::ranges::count(tokens.budget, budget));
    };
    const auto first = static_cast<std::uint32_t>(in(0) / 2), second = static_cast<std::uint32_t>(in(1) / 3);
    // RcLLM's rule: attention and half of the divergence in one budget, attention alone in the other.
    const Repair repair{
        .budgets = {first, second}, .attention = 1, .divergence = 0.5, .factors = {{1, 1}, {1, 0}}};
    const Flags of_first = plainly_chosen(tokens, 0, 1, 0.5, first),
                of_second = plainly_chosen(tokens, 1, 1, 0, second), found = chosen(repair, tokens);
    for (std::size_t t = 0; t < tokens.budget.size(); ++t)
      CHECK(found[t] == (tokens.budget[t] == 0 ? of_first : of_second)[t]);
  }
  Repair apart{.budgets = {1, 1}, .attention = 1, .divergence = 1, .factors = {{0, 1}, {1, 0}}};
  CHECK(chosen(apart) == Flags{1, 0, 1, 0, 0, 0});  // by divergence alone, by attention alone
  apart.factors = {{1, 0}, {0, 1}};
  CHECK(chosen(apart) == Flags{0, 1, 0, 0, 1, 0});
  apart.factors = {{1, 1}, {1, 1}};
  Repair shared = apart;
  shared.factors = {};
  CHECK(chosen(apart) == chosen(shared));
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
