// The plain prompt: system → user → items one after the other, each seeing all before it → instruction →
// discriminant.
//   causal: computed as it is, but for the user's block
//   blocks: items computed alone, seeing nothing, and moved to their places; a share of each may be repaired
//   (RcLLM)
#include "router/request/plan_writer.h"

namespace troupe::router {
namespace {

// Returns where the items begin.
std::int32_t begin(PlanWriter& plan, const RankPrompt& prompt) {
  plan.system();
  const auto start = static_cast<std::int32_t>(prompt.form.system.size());
  plan.add_user(start);
  return start + static_cast<std::int32_t>(prompt.history.size());
}

}  // namespace

Candidate causal_plan(const RankPrompt& prompt) {
  PlanWriter plan("causal", prompt);
  std::int32_t place = begin(plan, prompt);
  for (const ItemView& item : prompt.items) {
    plan.add(SegmentKind::item, prompt.tokens_of(item), place);
    place += static_cast<std::int32_t>(item.tokens.size());
  }
  return std::move(plan).finish(place);
}

Candidate blocks_plan(const RankPrompt& prompt) {
  PlanWriter plan("blocks", prompt);
  std::int32_t place = begin(plan, prompt);
  for (const ItemView& item : prompt.items) {
    plan.add_item(item, 0, place, {}, [&](const BlockNames& names) { return names.item_alone(item.tokens); });
    place += static_cast<std::int32_t>(item.tokens.size());
  }
  return std::move(plan).finish(place);
}

}  // namespace troupe::router
