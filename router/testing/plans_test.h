#pragma once
// Form, histories and items for tests of plans, and a function that builds a plan of them.
#include <doctest/doctest.h>

#include <initializer_list>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "router/request/plans.h"

namespace troupe::router::plans_test {

inline const NameContext context{"model 1", "layout 1"};

// Form of tiny-ranker-games: system prompt of 8 tokens, <user>, three instruction tokens, <disc>.
inline PromptForm games() { return {{1, 10, 11, 12, 13, 14, 15, 16}, {4}, {7, 8, 9}, {5}, 512, 17'903}; }

inline const kernels::PlanLimits limits = [] {
  kernels::PlanLimits all{17'903, 512};
  all.repairs = true;
  return all;
}();

inline Profile history_of(std::uint32_t events) {
  Profile profile{1, std::vector<Token>(4 * events), std::vector<std::uint32_t>(events, 4)};
  std::iota(profile.tokens.begin(), profile.tokens.end(), 20);
  return profile;
}

inline std::vector<Item> candidates(std::initializer_list<std::size_t> lengths) {
  std::vector<Item> items;
  for (const std::size_t length : lengths) {
    const Token n = static_cast<Token>(items.size());
    Item item{"item " + std::to_string(n), "", std::vector<Token>(length, 100 + n), 1'044 + n, {}};
    item.block = BlockNames(games(), context).item(item.tokens);
    items.push_back(item);
  }
  return items;
}

inline Candidate build(std::string_view plan, const FittedHistory& history, const std::vector<Item>& items,
                       const RepairChoice& repair = {}, const PromptForm& form = games()) {
  const BlockNames names(form, context);
  const std::vector<ItemView> seen = views(items);
  return find_plan(plan)->build({.form = form,
                                 .names = &names,
                                 .tenant = "t",
                                 .user = "ann",
                                 .history = history.tokens,
                                 .events = history.events,
                                 .items = seen,
                                 .repair = repair});
}

}  // namespace troupe::router::plans_test
