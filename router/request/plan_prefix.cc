// Builds the two prefixes of BAT §4.2.
//
//   user: system → user → items, all starting after the user → instruction → discriminant
//   item: system → items, all starting after the system → user, after the longest item
//         → instruction → discriminant
#include "router/request/plan_writer.h"

namespace troupe::router {
namespace {

std::int32_t longest_of(const RankPrompt& prompt) {
  return static_cast<std::int32_t>(item_tokens_max(prompt.items));
}

}  // namespace

Candidate user_plan(const RankPrompt& prompt) {
  PlanWriter plan("user", prompt);
  plan.system();
  const auto user_start = static_cast<std::int32_t>(prompt.form.system.size());
  const std::int32_t items_start = user_start + static_cast<std::int32_t>(prompt.history.size());
  plan.add_user(user_start);
  const VisibleSegments before = VisibleSegments::all_before(plan.count());
  for (const ItemView& item : prompt.items)
    plan.add(SegmentKind::item, prompt.tokens_of(item), items_start, before);
  return std::move(plan).finish(items_start + longest_of(prompt));
}

Candidate search_plan(const RankPrompt& prompt, Search search) {
  PlanWriter plan("user", prompt);
  plan.system();
  const auto user_start = static_cast<std::int32_t>(prompt.form.system.size());
  plan.add_user_in_parts(user_start);
  plan.add(SegmentKind::instruction, prompt.form.instruction,
           user_start + static_cast<std::int32_t>(prompt.history.size()));
  return std::move(plan).finish(std::move(search));
}

Candidate item_plan(const RankPrompt& prompt) {
  PlanWriter plan("item", prompt);
  plan.system();
  const auto start = static_cast<std::int32_t>(prompt.form.system.size());
  const VisibleSegments before = VisibleSegments::all_before(plan.count());
  for (const ItemView& item : prompt.items)
    plan.add_item(item, start, 0, before, [&](const BlockNames& names) { return names.item(item); });
  const std::int32_t user_start = start + longest_of(prompt);
  plan.add(SegmentKind::user, prompt.history, user_start);
  return std::move(plan).finish(user_start + static_cast<std::int32_t>(prompt.history.size()));
}

}  // namespace troupe::router
