#include "router/request/planner.h"

#include <algorithm>

namespace troupe::router {
namespace {

double sum(const std::vector<double>& numbers) {
  double total = 0;
  for (const double number : numbers) total += number;
  return total;
}

double missing_share(const MissingShares& missing, std::size_t item) {
  return missing.items.empty() ? 1 : missing.items[item];
}

// A segment's own tokens see each other causally, and all of `before`.
double segment_cost(double tokens, double before, double attention_share) {
  return tokens * (1 + attention_share * (before + tokens / 2));
}

}  // namespace

PromptSizes PromptSizes::of(std::size_t system_tokens, std::size_t user_tokens, std::span<const ItemView> items) {
  PromptSizes sizes{static_cast<double>(system_tokens), static_cast<double>(user_tokens), {}};
  sizes.items.reserve(items.size());
  for (const ItemView& item : items) sizes.items.push_back(static_cast<double>(item.tokens.size()));
  return sizes;
}

double plan_cost(Prefix prefix, const PromptSizes& sizes, const MissingShares& missing,
                 double attention_share) {
  const bool items_first = prefix == Prefix::item;
  const double before_items = sizes.system + (items_first ? 0 : sizes.user);
  const double before_user = sizes.system + (items_first ? sum(sizes.items) : 0);
  double cost = segment_cost(sizes.user, before_user, attention_share);
  if (prefix == Prefix::user) cost *= missing.user;
  for (std::size_t i = 0; i < sizes.items.size(); ++i)
    cost += segment_cost(sizes.items[i], before_items, attention_share) *
            (items_first ? missing_share(missing, i) : 1);
  return cost;
}

PlanChoice weigh_plans(const PromptSizes& sizes, const MissingShares& missing, const ExpectedUses& uses,
                       double attention_share) {
  const auto cost = [&](Prefix prefix, const MissingShares& shares) {
    return plan_cost(prefix, sizes, shares, attention_share);
  };
  const MissingShares nothing{0, std::vector<double>(sizes.items.size(), 0.0)};
  const double by_user = cost(Prefix::user, missing), by_items = cost(Prefix::item, missing);
  const double least = std::min(by_user, by_items);
  const auto choice = [&](Prefix prefix, double now, double expected) {
    return PlanChoice{prefix, now, expected * std::max(0.0, least - cost(prefix, nothing))};
  };
  const PlanChoice user = choice(Prefix::user, by_user, uses.user);
  const PlanChoice items = choice(Prefix::item, by_items, uses.items);
  return user.cost - user.gain < items.cost - items.gain ? user : items;
}

}  // namespace troupe::router
