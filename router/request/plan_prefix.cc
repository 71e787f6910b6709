// Builds the two prefixes of BAT §4.2, and candidates apart, which is a user prefix whose candidates
// are each read behind themselves.
//
//   user: system → user → items, all starting after the user → instruction → discriminant
//   item: system → items, all starting after the system → user, after the longest item
//         → instruction → discriminant; with a repair ("item+25") some tokens of the items are computed
//         with the items before them in sight (BAT §4.2, on base models to which the order matters)
//   A form that scores each candidate has its score tokens in place of instruction and discriminant. User
//   first, they follow their candidate, so that the prompt is that of candidates apart; item first, those of
//   each candidate follow the user, and see the system, their candidate and the user.
//   apart: system → user → for each candidate, starting after the user and seeing no other candidate:
//          candidate → instruction → discriminant, or candidate → the tokens behind which it is scored
#include <algorithm>

#include "router/request/plan_writer.h"

namespace troupe::router {
namespace {

std::int32_t longest_of(const RankPrompt& prompt) {
  if (prompt.items.empty()) return 0;
  return static_cast<std::int32_t>(prompt.form.item.size() + item_tokens_max(prompt.items));
}

std::size_t tokens_of_kind(const Plan& plan, SegmentKind kind) {
  std::size_t tokens = 0;
  for (const Segment& segment : plan.segments) tokens += segment.kind == kind ? segment.tokens.size() : 0;
  return tokens;
}

// A candidate and what its score is read behind are one segment: within it attention is causal.
Candidate read_behind_user(std::string_view name, const RankPrompt& prompt) {
  const PromptForm& form = prompt.form;
  PlanWriter plan(name, prompt);
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

}  // namespace

Candidate apart_plan(const RankPrompt& prompt) { return read_behind_user("apart", prompt); }

Candidate user_plan(const RankPrompt& prompt) {
  if (prompt.form.scores_each()) return read_behind_user("user", prompt);
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

namespace {

// Names where the items of an item-first prompt come from.
enum class ItemSource : std::uint8_t {
  blocks,    // reused blocks; no item sees another
  repaired,  // spans filled from these blocks and repaired; a computed token sees the items before its own
  computed,  // computed in full, each with the items before it in sight
};

// Adds each candidate's score tokens, which see the system prompt, the candidate and the user. `first` is the
// segment of the first candidate, those from `user` on are the user's.
void add_scores(PlanWriter& plan, const RankPrompt& prompt, std::uint32_t first, std::uint32_t user,
                std::int32_t start) {
  const std::uint32_t end = plan.count();
  for (std::uint32_t i = 0; i < prompt.items.size(); ++i) {
    VisibleSegments sees = VisibleSegments::all_before(prompt.form.system.empty() ? 0 : 1);
    sees.add(first + i);
    sees.add({user, end});
    plan.add_score(start, std::move(sees));
  }
}

Candidate item_first_plan(const RankPrompt& prompt, ItemSource items) {
  PlanWriter plan("item", prompt);
  const std::size_t per_item = (items == ItemSource::repaired ? 2 : 1) + (prompt.form.scores_each() ? 1 : 0);
  plan.reserve(per_item * prompt.items.size() + 4);
  plan.system();
  const auto start = static_cast<std::int32_t>(prompt.form.system.size());
  if (items == ItemSource::repaired) {
    plan.begin_blocks();
    for (const ItemView& item : prompt.items) plan.add_prefix_block(item);
    plan.end_blocks();
  }
  const std::uint32_t first = plan.count();
  for (const ItemView& item : prompt.items) {
    if (items == ItemSource::blocks) plan.add_prefix_block(item);
    if (items == ItemSource::repaired) plan.add_reused_span(start);
    if (items == ItemSource::computed) plan.add(SegmentKind::item, prompt.marked_tokens_of(item), start);
  }
  const std::uint32_t user = plan.count();
  const std::int32_t user_start = start + longest_of(prompt);
  plan.add(SegmentKind::user, prompt.history, user_start);
  const std::int32_t end = user_start + static_cast<std::int32_t>(prompt.history.size());
  if (prompt.form.scores_each()) add_scores(plan, prompt, first, user, end);
  return std::move(plan).finish(end);
}

// Returns the number of tokens of the spans that differ from their blocks. Lowers the number of computed
// tokens until at most `most` differ. A correction changes all tokens, so it is kept as a whole, or 0 is
// returned and the caller leaves the repair out.
std::size_t limit_repair(Plan& plan, std::size_t most) {
  kernels::Repair& repair = plan.repair;
  const std::size_t spans = kernels::repaired_tokens(plan);
  std::size_t computed = spans - kept_tokens(plan);
  if (repair.exact_layers > 1 || (repair.mean && computed > 0)) return spans <= most ? spans : 0;
  const auto excess = [&] { return computed - std::min(computed, most); };
  for (std::uint32_t& budget : repair.budgets) {
    const std::size_t less = std::min<std::size_t>(budget, excess());
    budget -= static_cast<std::uint32_t>(less);
    computed -= less;
  }
  const std::size_t less = excess();
  repair.always.resize(repair.always.size() - less);
  return computed - less;
}

}  // namespace

// A repair moves the answer away from that of the arrangement, whose items see no other. So what it
// computes is what is approximate, and a limit on that lowers the repair.
Candidate item_plan(const RankPrompt& prompt) {
  const bool repaired = prompt.repair != RepairChoice{} && prompt.approximate_max > 0;
  if (!repaired) return item_first_plan(prompt, ItemSource::blocks);
  const auto limit_of = [&](const Candidate& made) {
    return static_cast<std::size_t>(prompt.approximate_max * static_cast<double>(prompt_tokens(made.plan)));
  };
  if (prompt.repair.share >= 1) {
    Candidate made = item_first_plan(prompt, ItemSource::computed);
    made.approximate = tokens_of_kind(made.plan, SegmentKind::item);
    if (made.approximate <= limit_of(made)) return made;
  }
  Candidate made = item_first_plan(prompt, ItemSource::repaired);
  write_repair(made.plan, prompt.repair, SIZE_MAX);
  made.approximate = limit_repair(made.plan, limit_of(made));
  return made.approximate > 0 ? made : item_first_plan(prompt, ItemSource::blocks);
}

}  // namespace troupe::router
