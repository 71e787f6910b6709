// Builds the two prefixes of BAT §4.2, and candidates apart, which is a user prefix whose candidates
// are each read behind themselves.
//
//   user: system → user → items, all starting after the user → instruction → discriminant
//   item: system → items, all starting after the system → user, after the longest item
//         → instruction → discriminant
//   apart: system → user → for each candidate, starting after the user and seeing no other candidate:
//          candidate → instruction → discriminant, or candidate → the tokens behind which it is scored
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

// A candidate and what follows it are one segment: within it attention is causal.
Candidate apart_plan(const RankPrompt& prompt) {
  const PromptForm& form = prompt.form;
  PlanWriter plan("apart", prompt);
  plan.system();
  const auto user_start = static_cast<std::int32_t>(form.system.size());
  plan.add_user(user_start);
  const VisibleSegments before = VisibleSegments::all_before(plan.count());
  const std::int32_t start = user_start + static_cast<std::int32_t>(prompt.history.size());
  for (const ItemView& item : prompt.items) {
    std::vector<Token> tokens;
    tokens.reserve(form.item.size() + item.tokens.size() + form.score.size() + form.instruction.size() +
                   form.discriminant.size());
    const auto append = [&](std::span<const Token> part) {
      tokens.insert(tokens.end(), part.begin(), part.end());
    };
    append(form.item);
    append(item.tokens);
    append(form.score);
    append(form.instruction);
    append(form.discriminant);
    const std::vector<Token> rows =
        form.scores_each() ? std::vector<Token>{form.yes, form.no} : std::vector<Token>{item.identifier};
    plan.add_read_behind(std::move(tokens), start, before, rows);
  }
  return std::move(plan).finish();
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
