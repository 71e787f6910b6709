// Lists all plans by which a ranking request can be answered, in one table. Also counts the tokens
// of a plan and how many of them are approximate.
#include "router/request/plans.h"

#include <algorithm>

#include "kernels/base/check.h"
#include "router/request/item_block.h"

namespace troupe::router {
namespace {

// Plans of framed prompts that every model can have come first.
constexpr PlanKind plans[] = {
    {.name = "user",
     .arrangement = Arrangement::user_first,
     .build = user_plan,
     .metric = Metric::plans_user},
    {.name = "item",
     .arrangement = Arrangement::item_first,
     .build = item_plan,
     .repairs = true,
     .item_blocks = ItemBlockKind::prefix,
     .metric = Metric::plans_item},
    {.name = "causal", .arrangement = Arrangement::causal, .build = causal_plan},
    {.name = "apart", .arrangement = Arrangement::candidates_apart, .build = apart_plan},
    {.name = "blocks",
     .arrangement = Arrangement::causal,
     .build = blocks_plan,
     .repairs = true,
     .approximate = true,
     .item_blocks = ItemBlockKind::movable},
    {.name = "all_blocks",
     .arrangement = Arrangement::causal,
     .build = all_blocks_plan,
     .repairs = true,
     .approximate = true,
     .item_blocks = ItemBlockKind::movable},
    {.name = "prototypes",
     .arrangement = Arrangement::causal,
     .build = prototypes_plan,
     .repairs = true,
     .approximate = true,
     .item_blocks = ItemBlockKind::movable,
     .of_prototypes = true},
    {.name = "history", .arrangement = Arrangement::history, .build = history_plan},
    {.name = "towers", .arrangement = Arrangement::towers, .build = towers_plan},
};
constexpr std::span<const PlanKind> framed = std::span(plans).first<6>();

}  // namespace

Tokens RankPrompt::marked_tokens_of(const ItemView& item) const {
  if (form.item.empty()) return tokens_of(item);
  return item_block_tokens(ItemBlockKind::prefix, form, item.tokens);
}

std::size_t kept_tokens(const Plan& plan) {
  std::size_t computed = plan.repair.always.size();
  for (const std::uint32_t budget : plan.repair.budgets) computed += budget;
  return kernels::repaired_tokens(plan) - std::min(computed, kernels::repaired_tokens(plan));
}

std::size_t prompt_tokens(const Plan& plan) { return token_count(plan) - kernels::repaired_tokens(plan); }

double approximate_share(const Candidate& candidate) {
  const std::size_t tokens = prompt_tokens(candidate.plan);
  return tokens == 0 ? 0 : static_cast<double>(candidate.approximate) / static_cast<double>(tokens);
}

std::span<const PlanKind> plan_kinds() { return framed; }

const PlanKind* find_plan(std::string_view name) {
  const auto at = std::ranges::find(plans, name, &PlanKind::name);
  return at != std::end(plans) ? &*at : nullptr;
}

std::string plan_names() {
  std::string names;
  for (const PlanKind& kind : framed) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

const PlanKind& exact_plan(Arrangement arrangement) {
  const auto at = std::ranges::find_if(
      plans, [&](const PlanKind& kind) { return kind.arrangement == arrangement && !kind.approximate; });
  TROUPE_CHECK(at != std::end(plans), "an arrangement has an exact plan");
  return *at;
}

std::size_t item_positions(const PlanKind& kind, const PromptForm& form, std::span<const ItemView> items) {
  const std::size_t longest = item_tokens_max(items);
  if (kind.arrangement != Arrangement::causal)
    return longest == 0 ? 0 : form.item.size() + longest + form.score.size();
  std::size_t sum = 0;
  for (const ItemView& item : items) sum += form.item.size() + item.tokens.size() + form.score.size();
  return sum;
}

void add_task_readouts(const PromptForm& form, std::uint32_t segment, Plan& plan) {
  for (std::uint32_t task = 0; task < form.tasks_read(); ++task) {
    Readout readout{.segment = segment, .what = Readout::What::head};
    readout.head = task;
    plan.readouts.push_back(std::move(readout));
  }
}

}  // namespace troupe::router
