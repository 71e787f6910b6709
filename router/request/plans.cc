#include "router/request/plans.h"

#include <algorithm>

namespace troupe::router {
namespace {

constexpr PlanKind plans[] = {
    {.name = "user", .build = user_plan, .metric = Metric::plans_user},
    {.name = "item", .build = item_plan, .repairs = true, .metric = Metric::plans_item},
    {.name = "causal", .build = causal_plan, .one_after_other = true},
    {.name = "blocks", .build = blocks_plan, .repairs = true, .one_after_other = true},
};

}  // namespace

std::span<const PlanKind> plan_kinds() { return plans; }

const PlanKind* find_plan(std::string_view name) {
  const auto at = std::ranges::find(plans, name, &PlanKind::name);
  return at != std::end(plans) ? &*at : nullptr;
}

std::string plan_names() {
  std::string names;
  for (const PlanKind& kind : plans) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

std::size_t item_positions(const PlanKind& kind, std::span<const ItemView> items) {
  if (!kind.one_after_other) return item_tokens_max(items);
  std::size_t sum = 0;
  for (const ItemView& item : items) sum += item.tokens.size();
  return sum;
}

}  // namespace troupe::router
